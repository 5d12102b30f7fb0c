"""Tables of who may use the engine, and of the audit trail, which nothing changes once it is written."""

from typing import Final

# A removed account stays, so that its name never comes to mean somebody else. `totp` is a sealed secret.
_ACCOUNT: Final = """
CREATE TABLE account (
  name TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, state TEXT NOT NULL, password TEXT NOT NULL DEFAULT '',
  password_at BIGINT, totp BLOB NOT NULL DEFAULT x'', totp_step BIGINT NOT NULL DEFAULT 0,
  totp_wanted INTEGER NOT NULL DEFAULT 0, made_at BIGINT NOT NULL, made_by TEXT NOT NULL) WITHOUT ROWID
"""

# Of what is secret in the next three only the digest is kept. An invitation for nobody makes the first administrator.
_INVITATION: Final = """
CREATE TABLE invitation (
  digest BLOB NOT NULL PRIMARY KEY, account TEXT NOT NULL, expires_at BIGINT NOT NULL) WITHOUT ROWID
"""

_SESSION: Final = """
CREATE TABLE session (
  digest BLOB NOT NULL PRIMARY KEY, account TEXT NOT NULL, address TEXT NOT NULL, began_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL, confirmed_at BIGINT NOT NULL, enrolling INTEGER NOT NULL,
  offer BLOB NOT NULL DEFAULT x'') WITHOUT ROWID
"""

_BEARER: Final = """
CREATE TABLE bearer (
  name TEXT NOT NULL PRIMARY KEY, digest BLOB NOT NULL UNIQUE, role TEXT NOT NULL, channels TEXT NOT NULL,
  made_at BIGINT NOT NULL, made_by TEXT NOT NULL, expires_at BIGINT NOT NULL, used_at BIGINT, revoked_at BIGINT)
"""

# hash = SHA-256 of the row before's hash and of this row as JSON.
_AUDIT: Final = """
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY, at BIGINT NOT NULL, actor TEXT NOT NULL, role TEXT NOT NULL, via TEXT NOT NULL,
  address TEXT NOT NULL, act TEXT NOT NULL, entry BIGINT, outcome TEXT NOT NULL, reason TEXT NOT NULL,
  detail TEXT NOT NULL, patients TEXT NOT NULL, follows BIGINT, hash BLOB NOT NULL)
"""

_KEPT: Final = tuple(
    f"CREATE TRIGGER audit_{act.lower()} BEFORE {act} ON audit "
    "BEGIN SELECT RAISE(ABORT, 'the audit trail is only ever added to'); END"
    for act in ("UPDATE", "DELETE")
)

_INDEXES: Final = (
    "CREATE INDEX session_of ON session (account)",
    "CREATE INDEX invitation_of ON invitation (account)",
    "CREATE INDEX audit_actor ON audit (actor, seq)",
    "CREATE INDEX audit_act ON audit (act, seq)",
    "CREATE INDEX audit_entry ON audit (entry, seq) WHERE entry IS NOT NULL",
)

STATEMENTS: Final = (_ACCOUNT, _INVITATION, _SESSION, _BEARER, _AUDIT, *_KEPT, *_INDEXES)
