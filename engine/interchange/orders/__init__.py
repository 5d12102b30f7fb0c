"""Floor 10: laboratory orders: compendia, orders, laboratories."""
