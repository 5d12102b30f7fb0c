"""The operators' pages and the JSON API: one table of routes, each with the permission that it needs."""
