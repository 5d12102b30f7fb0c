"""Floor 11: what answers requests: HTTP, bundles, the Chart API, the chart viewer, OAuth2."""
