"""Who may come in: accounts, passwords, second factors, sessions and API tokens; no HTTP in here."""
