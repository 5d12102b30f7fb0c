"""Commands on accounts, tokens and the audit trail."""
