"""The chart viewer: sign-in, patient search, and the chart through the Chart API and FHIR."""
