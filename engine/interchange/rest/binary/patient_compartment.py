"""The patients of a Binary: that of its security context, else those of the resources that attach it."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction

# The patients of resources that refer to a target, and patients that refer to it themselves (a photo).
REFERRING: Final = (
    "SELECT DISTINCT CASE WHEN r.type = 'Patient' THEN 'Patient/' || r.id ELSE own.target END"
    " FROM reference_index AS i JOIN resource AS r ON r.key = i.key"
    " LEFT JOIN reference_index AS own ON own.key = i.key AND own.parameter = r.type || '.patient'"
    " WHERE i.tenant = ? AND i.target = ?"
)
IN_CHART_OF: Final = (
    "SELECT target FROM reference_index WHERE parameter = ? AND key ="
    " (SELECT key FROM resource WHERE tenant = ? AND type = ? AND id = ?)"
)


def owners(transaction: Transaction, binary_id: str, resource: JsonObject) -> frozenset[str]:
    """Return the ids of a Binary's patients; empty for none."""
    context = local_target(resource.get("securityContext", {}).get("reference", ""))
    if context.startswith("Patient/"):
        targets = {context}
    elif context:
        type_name, _, context_id = context.partition("/")
        arguments: tuple[str | int, ...] = (f"{type_name}.patient", transaction.tenant, type_name, context_id)
        targets = {row[0] for row in transaction.connection.execute(IN_CHART_OF, arguments).fetchall()}
    else:
        target = f"Binary/{binary_id}"
        rows = transaction.connection.execute(REFERRING, (transaction.tenant, target)).fetchall()
        targets = {row[0] for row in rows if row[0]}
    return frozenset(target.removeprefix("Patient/") for target in targets if target.startswith("Patient/"))
