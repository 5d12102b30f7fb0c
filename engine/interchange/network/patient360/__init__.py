"""Patient360: the records of other organizations about a patient, read, normalised and imported."""
