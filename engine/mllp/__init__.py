"""The client side of the Minimal Lower Layer Protocol."""
