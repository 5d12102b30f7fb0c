"""The effect of a merge, in one transaction: tombstone, link, reserved identifiers, re-pointed references."""

from typing import Any

from engine.interchange.merge.pair import Pair
from engine.interchange.references import repoint
from engine.interchange.store.transaction import Transaction

Json = Any


def merge(transaction: Transaction, pair: Pair) -> None:
    """Let the target take the place of the source.

    The target's content stays as it is but for a link. The source is kept as inactive, with a link to the target;
    no search finds it, and its identifiers find the target. What referred to the source refers to the target, in a
    new version; merged-away records keep their links, which tell the history.
    """
    source, target = f"Patient/{pair.source.id}", f"Patient/{pair.target.id}"
    for referrer in transaction.referrers(source):
        if referrer.key not in {pair.source.key, pair.target.key}:
            transaction.update(referrer, repoint(referrer.resource(), source, target))
    transaction.update(pair.target, _linked(pair.target.resource(), source, "replaces"))
    gone = {**_linked(pair.source.resource(), target, "replaced-by"), "active": False}
    transaction.retire(pair.source, gone, pair.target)


def _linked(patient: dict[str, Json], other: str, kind: str) -> dict[str, Json]:
    link = {"other": {"reference": other}, "type": kind}
    return {**patient, "link": [*patient.get("link", []), link]}
