"""The Patient of a message: found by its identifiers, created or updated, idempotent whatever was lost on the way."""
