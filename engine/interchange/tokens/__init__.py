"""Floor 3: accounts, tokens, scopes and roles."""
