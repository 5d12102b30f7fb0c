"""Rows of references when a resource takes the place of another: the index names it wherever it named the other."""

from typing import Final

from engine.interchange.store.transaction import StoredVersion, Transaction

# Rows of all that refers to a target but two records; a row of the same parameter may be there already.
REDIRECT: Final = (
    "INSERT INTO reference_index (tenant, key, parameter, target)"
    " SELECT tenant, key, parameter, ? FROM reference_index WHERE tenant=? AND target=? AND key NOT IN (?, ?)"
    " ON CONFLICT DO NOTHING"
)
DROP_TARGET: Final = "DELETE FROM reference_index WHERE tenant=? AND target=? AND key NOT IN (?, ?)"
# A row without a parameter stands only where no parameter names the target.
DROP_UNNAMED: Final = (
    "DELETE FROM reference_index WHERE tenant=? AND target=? AND parameter='' AND EXISTS"
    " (SELECT 1 FROM reference_index AS named WHERE named.key=reference_index.key"
    " AND named.target=reference_index.target AND named.parameter<>'')"
)


def redirected(transaction: Transaction, source: StoredVersion, target: StoredVersion) -> None:
    """Let the index name `target` wherever it names `source`, but in the rows of these two themselves."""
    old, new = f"{source.type}/{source.id}", f"{target.type}/{target.id}"
    but = (source.key, target.key)
    tenant, execute = transaction.tenant, transaction.connection.execute
    execute(REDIRECT, (new, tenant, old, *but))
    execute(DROP_TARGET, (tenant, old, *but))
    execute(DROP_UNNAMED, (tenant, new))
