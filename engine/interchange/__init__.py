"""The Clinical Data Interchange Service: a FHIR REST service in R4 and STU3."""
