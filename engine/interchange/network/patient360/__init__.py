"""Patient360: what other organizations know of a patient, read, standardised and kept."""
