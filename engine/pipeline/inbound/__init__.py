"""What intake leans on: the judgement of a message, its journal entry, its acknowledgement."""
