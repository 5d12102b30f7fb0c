"""The effect of a merge, in one transaction: tombstone, link, reserved identifiers, re-pointed references."""

from engine.fhir.json import JsonObject
from engine.interchange.rest.merge.pair import MergePair
from engine.interchange.store.references import redirected, repoint
from engine.interchange.store.transaction import Transaction


def merge(transaction: Transaction, pair: MergePair) -> None:
    """Let the target take the place of the source.

    The target's content stays as it is but for a link. The source is kept as inactive, with a link to the target;
    no search finds it, and its identifiers find the target. What referred to the source refers to the target, in a
    new version; links of the two, and of records merged away before, record the history and stay.
    """
    source, target = f"Patient/{pair.source.id}", f"Patient/{pair.target.id}"
    followed: list[int] = []
    for referrer in transaction.referrers(source):
        if referrer.key not in {pair.source.key, pair.target.key}:
            transaction.rewrite(referrer, repoint(referrer.resource(), source, target))
            followed += [referrer.key] if transaction.followed(referrer.type) else []
    redirected(transaction, pair.source, pair.target)
    gone = pair.source.resource()
    gone = {**gone, "active": False, "link": _with(gone.get("link", []), target, "replaced-by")}
    # First, so that subscribers to the source's identifiers get the survivor's new version.
    transaction.retire(pair.source, gone, pair.target)
    survivor = pair.target.resource()
    links = survivor.get("link", [])
    survivor = {**repoint(survivor, source, target), "link": _with(links, source, "replaces")}
    transaction.update(pair.target, survivor)
    for key in followed:
        transaction.notify_rewritten(key)


def _with(links: list[JsonObject], other: str, kind: str) -> list[JsonObject]:
    link = {"other": {"reference": other}, "type": kind}
    return links if link in links else [*links, link]
