"""The Patient Chart API: a patient's record by categories, as plain JSON."""
