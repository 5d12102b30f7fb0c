"""The sections of a CCD, a module each, and the table of them."""
