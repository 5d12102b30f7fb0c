"""From an HL7 message to a plan of FHIR interactions, as the YAML says."""
