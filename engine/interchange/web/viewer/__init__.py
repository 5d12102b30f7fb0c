"""The chart in a browser: people sign in, find a patient, and read the chart through the Chart API and FHIR."""
