"""Resources beside the Patient: visits, lists, accounts, practitioners, provenance."""
