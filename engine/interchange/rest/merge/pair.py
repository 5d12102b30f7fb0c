"""The two records of a merge, looked up and judged; the same for a preview and for the merge itself."""

from dataclasses import dataclass

from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.rest.merge.order import MergeOrder, MergeSide
from engine.interchange.rest.patient.index import IDENTIFIER
from engine.interchange.store.transaction import StoredVersion, Transaction


@dataclass(frozen=True, slots=True)
class MergePair:
    """Source and target, both live and not the same."""

    source: StoredVersion
    target: StoredVersion


def find_pair(transaction: Transaction, order: MergeOrder) -> MergePair:
    """Return both records; RefusedError (422): unknown, ambiguous, deleted, merged away, inactive target, the same."""
    found = {side.parameter: _look_up(transaction, side) for side in (order.source, order.target)}
    unknown = [Issue(f"{name} names no patient.", name) for name, stored in found.items() if stored is None]
    if unknown:
        raise RefusedError(Category.UNRESOLVED, tuple(unknown))
    source, target = (stored for stored in found.values() if stored is not None)
    if source.key == target.key:
        text = "Source and target are the same patient."
        raise refuse(Category.RULE, text, location=order.target.parameter, detail="self-merge")
    for side, stored in ((order.source, source), (order.target, target)):
        if stored.deleted:
            text = f"Patient/{stored.id} was deleted."
            raise refuse(Category.RULE, text, location=side.parameter, detail="deleted")
        if stored.survivor is not None:
            text = f"Patient/{stored.id} was already merged into Patient/{stored.survivor}."
            raise refuse(Category.RULE, text, location=side.parameter, detail="already-merged")
    if target.resource().get("active") is False:
        text = f"Patient/{target.id} is inactive."
        raise refuse(Category.RULE, text, location=order.target.parameter, detail="inactive-target")
    return MergePair(source, target)


def _look_up(transaction: Transaction, side: MergeSide) -> StoredVersion | None:
    if side.id:
        return transaction.get("Patient", side.id)
    holders = transaction.holders(IDENTIFIER, side.system, side.value)
    if len(holders) > 1:
        raise refuse(Category.AMBIGUOUS, f"{side.parameter} names several patients.", location=side.parameter)
    return transaction.by_key(holders[0]) if holders else None
