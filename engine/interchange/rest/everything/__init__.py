"""Patient/{id}/$everything: a patient's whole chart and what it refers to, page by page."""
