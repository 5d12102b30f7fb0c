"""The scheduler of deliveries: which may run now, each at the head of all its lanes."""
