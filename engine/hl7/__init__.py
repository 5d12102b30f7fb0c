"""HL7 version 2: messages, paths, character sets, timestamps and event tables; values only."""
