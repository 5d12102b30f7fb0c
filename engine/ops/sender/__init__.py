"""The sender's side of MLLP: files as messages, lines, answers."""
