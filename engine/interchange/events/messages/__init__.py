"""Messages of a hospital's events: taken once, told to those who subscribed, and searched."""
