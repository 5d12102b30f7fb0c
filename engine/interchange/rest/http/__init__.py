"""Who may make a request: its token, its scopes, its patient."""
