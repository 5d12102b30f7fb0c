"""References followed: to what a resource contains, and to what is on the server."""

from engine.fhir.json import Json, JsonObject
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction

Resource = JsonObject


class Resolver:
    """Finds what references name, as seen from resources that may contain it, the nearest first."""

    def __init__(self, transaction: Transaction, holders: tuple[Resource, ...]) -> None:
        self._transaction = transaction
        self._contained: dict[str, Resource] = {}
        for holder in reversed(holders):
            self._contained |= {f"#{one.get('id')}": one for one in holder.get("contained", ())}

    def __call__(self, reference: Json) -> Resource | None:
        """Return what a Reference or its text names; None where it names nothing that is there."""
        text = reference.get("reference", "") if isinstance(reference, dict) else reference
        if not isinstance(text, str) or not text:
            return None
        if text.startswith("#"):
            return self._contained.get(text)
        type_name, _, resource_id = local_target(text).partition("/")
        stored = self._transaction.get(type_name, resource_id)
        if stored is not None and stored.survivor:
            stored = self._transaction.get(type_name, stored.survivor)
        return None if stored is None or stored.survivor is not None else stored.resource()
