"""The durable record: entries, lanes, attempts, identities, ownership."""
