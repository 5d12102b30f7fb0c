"""What dispatch leans on: a destination's pace, health, pauses and memory, and the settlement of a delivery."""
