"""The Clinical Data Interchange Service: a FHIR REST service of R4 and STU3, with its own store and its own process."""
