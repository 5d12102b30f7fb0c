"""Tokens, scopes and roles."""
