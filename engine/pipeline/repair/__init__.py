"""What people do with entries: replay, release, edit, dry run, and who a patient is."""
