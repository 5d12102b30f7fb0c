"""Resolves references within a chart, as far as the token allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.network.patient360.record import Words
from engine.interchange.orders.laboratory.resolving import Resolver
from engine.interchange.rest.resource.catalogue import CHART, KEPT, SUPPORTING
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction

# The types that Patient/$everything returns: a token that may read the chart may see them.
OPEN: Final = frozenset(one.name for one in (*CHART, *SUPPORTING))


@dataclass(slots=True)
class ChartReader:
    """One snapshot of the store for the chart of `patient`; `may_see`: whether the token may read a type.

    `whole`: the token may read the whole chart, whatever it says of single types. `base_url` is the service's own.
    """

    transaction: Transaction
    patient: str
    words: Words
    may_see: Callable[[str], bool]
    base_url: str
    whole: bool = True
    _found: dict[str, JsonObject | None] = field(default_factory=dict)

    def find(self, reference: Json, within: Mapping[str, Json] | None = None) -> JsonObject | None:
        """Return the resource of a Reference, stored or contained in `within`; None if it may not be seen.

        A record of another patient is never part of this chart.
        """
        target = reference.get("reference", "") if isinstance(reference, dict) else ""
        if not isinstance(target, str) or not target:
            return None
        if target.startswith("#"):
            return Resolver(self.transaction, (dict(within or {}),))(target)
        target = local_target(target)
        if target not in self._found:
            self._found[target] = self._kept(target)
        return self._found[target]

    def _kept(self, target: str) -> JsonObject | None:
        definition = KEPT.get(target.partition("/")[0])
        if definition is None or not ((self.whole and definition.name in OPEN) or self.may_see(definition.name)):
            return None
        found = Resolver(self.transaction, ())(target)
        if found is None or not definition.patient:
            return found
        owner = found.get(definition.patient, {}).get("reference", "")
        return found if owner == f"Patient/{self.patient}" else None
