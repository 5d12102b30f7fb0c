"""What differs between R4 and STU3; R4 is what is kept."""
