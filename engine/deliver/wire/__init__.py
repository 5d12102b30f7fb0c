"""The wire to one FHIR server: connections, tokens, abilities, and the exchange of one delivery."""
