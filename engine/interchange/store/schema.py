"""Tables and indexes of the store, as steps that each database takes once, in this order.

`key` is the immutable sequence of creation, and the order of every search. `parameter` names type and search
parameter (`Patient.family`). A merged-away record keeps its body and loses its index rows; its identifiers go over
to the survivor (`key`), while `origin` says who carries them in the body. A deleted one has '' for a survivor, no body
and no index rows. `version` has all versions but the present one; `change` is what made a version.
"""

from collections.abc import Callable, Iterator
from typing import Final

from sqlite_utils import Database, Migrations

from engine.database.connection import Connection
from engine.database.dialect import Dialect
from engine.errors import StartError
from engine.interchange.store.index import COUNTS
from engine.interchange.store.message import MESSAGES
from engine.interchange.store.notification import SUBSCRIPTIONS

RESOURCES: Final = """
CREATE TABLE tenant (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE resource (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    survivor TEXT,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX resource_by_id ON resource (tenant, type, id);
CREATE INDEX resource_live ON resource (tenant, type, key) WHERE survivor IS NULL;
CREATE INDEX resource_by_update ON resource (tenant, type, updated_ms) WHERE survivor IS NULL;
CREATE INDEX resource_by_survivor ON resource (tenant, type, survivor) WHERE survivor IS NOT NULL;
"""

SEARCH: Final = """
CREATE TABLE string_index (
    key INTEGER NOT NULL, parameter TEXT NOT NULL, folded TEXT NOT NULL, exact TEXT NOT NULL, tenant INTEGER NOT NULL,
    PRIMARY KEY (key, parameter, folded, exact)
) STRICT, WITHOUT ROWID;
CREATE INDEX string_by_value ON string_index (tenant, parameter, folded);

CREATE TABLE token_index (
    key INTEGER NOT NULL, parameter TEXT NOT NULL, code TEXT NOT NULL, system TEXT NOT NULL, tenant INTEGER NOT NULL,
    PRIMARY KEY (key, parameter, code, system)
) STRICT, WITHOUT ROWID;
CREATE INDEX token_by_code ON token_index (tenant, parameter, code, system);
CREATE INDEX token_by_system ON token_index (tenant, parameter, system);

CREATE TABLE date_index (
    key INTEGER NOT NULL, parameter TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    PRIMARY KEY (key, parameter, low, high)
) STRICT, WITHOUT ROWID;
CREATE INDEX date_by_low ON date_index (tenant, parameter, low, high);
CREATE INDEX date_by_high ON date_index (tenant, parameter, high);

CREATE TABLE identifier_index (
    origin INTEGER NOT NULL, parameter TEXT NOT NULL, value TEXT NOT NULL, system TEXT NOT NULL,
    record_number INTEGER NOT NULL, key INTEGER NOT NULL, tenant INTEGER NOT NULL,
    PRIMARY KEY (origin, parameter, value, system, record_number)
) STRICT, WITHOUT ROWID;
CREATE INDEX identifier_by_value ON identifier_index (tenant, parameter, value, system, key, record_number);
CREATE INDEX identifier_by_system ON identifier_index (tenant, parameter, system, key);
CREATE INDEX identifier_by_key ON identifier_index (key, parameter, value, system);

CREATE TABLE reference_index (
    key INTEGER NOT NULL, target TEXT NOT NULL, tenant INTEGER NOT NULL,
    PRIMARY KEY (key, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX reference_by_target ON reference_index (tenant, target);
"""

TOKENS: Final = """
CREATE TABLE token (
    digest BLOB PRIMARY KEY,
    kind TEXT NOT NULL,
    pair INTEGER NOT NULL,
    client TEXT NOT NULL,
    scope TEXT NOT NULL,
    api_version TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    revoked INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX token_by_pair ON token (pair);
CREATE INDEX token_by_expiry ON token (expires_ms);
"""

# A reference by search parameter (`Observation.patient`), or by '' where no parameter names its element.
REFERENCES: Final = """
CREATE TABLE named_reference_index (
    key INTEGER NOT NULL, parameter TEXT NOT NULL, target TEXT NOT NULL, tenant INTEGER NOT NULL,
    PRIMARY KEY (key, parameter, target)
) STRICT, WITHOUT ROWID;
INSERT INTO named_reference_index (key, parameter, target, tenant) SELECT key, '', target, tenant FROM reference_index;
DROP TABLE reference_index;
ALTER TABLE named_reference_index RENAME TO reference_index;
CREATE INDEX reference_by_target ON reference_index (tenant, target, parameter);
"""

# `login` is the user that a token speaks for, '' for none. Codes and assertions are spent once.
SIGN_IN: Final = """
ALTER TABLE token ADD COLUMN login TEXT NOT NULL DEFAULT '';

CREATE TABLE authorization_code (
    digest BLOB PRIMARY KEY,
    pair INTEGER NOT NULL,
    client TEXT NOT NULL,
    login TEXT NOT NULL,
    scope TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX authorization_code_by_expiry ON authorization_code (expires_ms);

CREATE TABLE spent_assertion (digest BLOB PRIMARY KEY, expires_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX spent_assertion_by_expiry ON spent_assertion (expires_ms);
"""

# The signing secrets: made once, and the same for every process on this database.
SECRETS: Final = "CREATE TABLE secret (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID"

# The environment that owns the database: one row, written by the first service that uses it.
HOME: Final = """
CREATE TABLE home (one INTEGER PRIMARY KEY CHECK (one = 1), environment TEXT NOT NULL) STRICT
"""

# The keys of an answer that has more than one page, in its order, packed, by what they are.
CONTINUATIONS: Final = """
CREATE TABLE continuation (
    digest BLOB NOT NULL PRIMARY KEY,
    tenant INTEGER NOT NULL,
    keys BLOB NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX continuation_by_expiry ON continuation (expires_ms);
CREATE INDEX continuation_by_tenant ON continuation (tenant, expires_ms);
"""

# By which search parameters the index rows of all resources are made, or are being made up to a key.
INDEXING: Final = """
CREATE TABLE indexing (
    one INTEGER PRIMARY KEY CHECK (one = 1), edition TEXT NOT NULL, reached INTEGER NOT NULL, done INTEGER NOT NULL
) STRICT
"""

# `ended_ms` is when the next version came. What was written before this step left nothing but the present versions:
# `unknown_version` has, for each resource that had others, the number of the last of these.
VERSIONS: Final = """
ALTER TABLE resource ADD COLUMN change TEXT NOT NULL DEFAULT '';
CREATE INDEX resource_gone_by_update ON resource (tenant, type, updated_ms) WHERE survivor IS NOT NULL;

CREATE TABLE version (
    number INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    type TEXT NOT NULL,
    key INTEGER NOT NULL,
    version INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    change TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX version_by_key ON version (key, version);
CREATE INDEX version_by_update ON version (tenant, type, updated_ms, key, version, ended_ms);

CREATE TABLE unknown_version (key INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT;
INSERT INTO unknown_version (key, version) SELECT key, version - 1 FROM resource WHERE version > 1;
"""

# `patient` is the id of the one whose record a token, or a code, is for; `nonce` goes into the id_token.
PATIENT_CONTEXT: Final = """
ALTER TABLE token ADD COLUMN patient TEXT NOT NULL DEFAULT '';
ALTER TABLE authorization_code ADD COLUMN patient TEXT NOT NULL DEFAULT '';
ALTER TABLE authorization_code ADD COLUMN nonce TEXT NOT NULL DEFAULT '';
"""

# `store/access.py` describes a row. It holds the tenant's name, as rows outlive the configuration.
ACCESS: Final = """
CREATE TABLE access (
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    client TEXT NOT NULL,
    login TEXT NOT NULL,
    role TEXT NOT NULL,
    address TEXT NOT NULL,
    request TEXT NOT NULL,
    base TEXT NOT NULL,
    interaction TEXT NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    patients TEXT NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE INDEX access_by_time ON access (tenant, at_ms);

CREATE TABLE access_patient (
    tenant TEXT NOT NULL, patient TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, patient, seq)
) STRICT, WITHOUT ROWID;
"""

# Searches of auditors other than by patient and time: by client, by person, by refusal or failure.
ACCESS_SEARCH: Final = """
CREATE INDEX access_by_client ON access (tenant, client, at_ms);
CREATE INDEX access_by_login ON access (tenant, login, at_ms) WHERE login <> '';
CREATE INDEX access_by_outcome ON access (tenant, outcome, at_ms) WHERE outcome <> 'done';
"""

# One row for each asynchronous answer that was promised; `store/job.py` says how it moves. `ended_ms` is null until it
# has ended, `body` then its result or why it failed; `attempts` is how often it was taken up, `crashes` how often the
# process ended meanwhile.
JOBS: Final = """
CREATE TABLE job (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    patient TEXT NOT NULL,
    version TEXT NOT NULL,
    asked TEXT NOT NULL,
    client TEXT NOT NULL,
    login TEXT NOT NULL,
    asked_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    started_ms INTEGER,
    ended_ms INTEGER,
    progress TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX job_by_id ON job (id, tenant);
CREATE UNIQUE INDEX job_one_at_a_time ON job (tenant, kind, patient, version)
    WHERE ended_ms IS NULL AND patient<>'';
CREATE INDEX job_unfinished ON job (state, tenant, kind, number) WHERE ended_ms IS NULL;
CREATE INDEX job_ended ON job (ended_ms) WHERE ended_ms IS NOT NULL;
"""

# Documents that operations made, to be fetched until they expire; `patient` is the id of their patient.
TEMPORARY_BINARIES: Final = """
CREATE TABLE temporary_binary (
    tenant INTEGER NOT NULL,
    id TEXT NOT NULL,
    patient TEXT NOT NULL,
    content_type TEXT NOT NULL,
    body BLOB NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX temporary_binary_by_expiry ON temporary_binary (expires_ms);
"""

# One row an order that was ever pending, and one for each time it was sent; `store/transmission.py` says how it moves.
# `number` is the order of placing, `ended_ms` null until nothing more is to do with it.
TRANSMISSIONS: Final = """
CREATE TABLE transmission (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    order_id TEXT NOT NULL,
    laboratory TEXT NOT NULL,
    standing TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    placed_ms INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    sent_ms INTEGER,
    ended_ms INTEGER,
    result_ms INTEGER,
    reason TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX transmission_by_order ON transmission (order_id, tenant);
CREATE INDEX transmission_unfinished ON transmission (standing, tenant, laboratory, number) WHERE ended_ms IS NULL;
CREATE INDEX transmission_by_result ON transmission (result_ms) WHERE result_ms IS NOT NULL;

CREATE TABLE transmission_try (
    tenant INTEGER NOT NULL,
    order_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    control_id TEXT NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (tenant, order_id, number)
) STRICT, WITHOUT ROWID;
"""

# Kinds of job that a patient may have several of at once, such as orders.
JOBS_APART: Final = """
ALTER TABLE job ADD COLUMN apart INTEGER NOT NULL DEFAULT 0;
DROP INDEX job_one_at_a_time;
CREATE UNIQUE INDEX job_one_at_a_time ON job (tenant, kind, patient, version)
    WHERE ended_ms IS NULL AND patient<>'' AND apart=0;
"""

# Each step by the name that a database remembers it by: new ones come last, and none is changed.
STEPS: Final = {
    "resources": RESOURCES,
    "search": SEARCH,
    "tokens": TOKENS,
    "references": REFERENCES,
    "sign_in": SIGN_IN,
    "secrets": SECRETS,
    "home": HOME,
    "continuations": CONTINUATIONS,
    "indexing": INDEXING,
    "versions": VERSIONS,
    "patient_context": PATIENT_CONTEXT,
    "access": ACCESS,
    "access_search": ACCESS_SEARCH,
    "jobs": JOBS,
    "temporary_binaries": TEMPORARY_BINARIES,
    "transmissions": TRANSMISSIONS,
    "jobs_apart": JOBS_APART,
    "code_counts": COUNTS,
    "subscriptions": SUBSCRIPTIONS,
    "messages": MESSAGES,
    "token_grant": "ALTER TABLE token ADD COLUMN given_by TEXT NOT NULL DEFAULT ''",
}
# A database belongs to the environment of the first service that used it.
SETTLE: Final = "INSERT INTO home (one, environment) VALUES (1, ?) ON CONFLICT (one) DO NOTHING"
SETTLED: Final = "SELECT environment FROM home"


def statements(dialect: Dialect) -> tuple[str, ...]:
    """Return every statement that makes the tables in an empty database."""
    return tuple(dialect.render(statement) for script in STEPS.values() for statement in statements_of(script))


def statements_of(script: str) -> Iterator[str]:
    """Yield the statements of a step."""
    return (part.strip() for part in script.split(";") if part.strip())


def _step(script: str) -> Callable[[Database], None]:
    def run(database: Database) -> None:
        for statement in statements_of(script):
            database.execute(statement)

    return run


def settle(connection: Connection, environment: str, shown: str) -> None:
    """Assign a database to an environment, '' for any; StartError where it belongs to another."""
    if not environment:
        return
    connection.execute(SETTLE, (environment,))
    owner = connection.execute(SETTLED).fetchone()[0]
    if owner != environment:
        raise StartError(
            f"the database {shown} belongs to {owner}, and this is {environment}: name another with --database"
        )


migrations: Final = Migrations("interchange")
for _name, _script in STEPS.items():
    migrations(name=_name)(_step(_script))
