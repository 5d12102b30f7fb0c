"""What is written: recordings, settlements, operations; by one writer thread that commits them in groups."""
