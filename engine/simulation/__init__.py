"""A simulated hospital: a seeded stream of believable ADT messages; every name, number and place is invented."""
