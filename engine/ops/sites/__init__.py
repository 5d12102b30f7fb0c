"""Other engines: asked by their HTTP APIs, and what is known of each."""
