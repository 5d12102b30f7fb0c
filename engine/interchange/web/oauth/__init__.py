"""The endpoints and pages of OAuth2: tokens, authorization, sign-in."""
