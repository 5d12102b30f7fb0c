"""Resources other than the Patient: visits, lists, accounts, practitioners, provenance."""
