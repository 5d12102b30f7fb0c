"""The receiver's side of MLLP: a simulated system that takes messages and answers as it was asked to."""
