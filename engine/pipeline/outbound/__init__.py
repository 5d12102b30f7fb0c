"""What dispatch leans on: a destination's throttle, health, pauses and memory, and the settlement of a delivery."""
