"""How orders get to laboratories: simulated, over MLLP, as files in a folder."""
