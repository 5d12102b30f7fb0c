"""The last moment that the journal took for true; retention goes no further than a few days beyond it."""

from typing import Final

_CLOCK: Final = "CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), at BIGINT NOT NULL)"

STATEMENTS: Final = (_CLOCK,)
