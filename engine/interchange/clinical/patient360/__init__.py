"""Facts about a patient, and the terms that they are told in."""
