"""Facts about a patient, and their code systems and units."""
