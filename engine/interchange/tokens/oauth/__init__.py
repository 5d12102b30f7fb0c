"""Tokens, scopes and roles: who may do what."""
