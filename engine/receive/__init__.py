"""The door for messages: MLLP blocks, listeners, TLS, batch envelopes."""
