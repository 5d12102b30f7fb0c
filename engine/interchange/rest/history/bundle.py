"""The history Bundle: versions with the request that made each, and how that was answered."""

from typing import Final, NamedTuple

import orjson

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.exact import write_json
from engine.interchange.store.transaction import StoredVersion, VersionMethod

# Method and status of a request by the change that it made.
REQUESTS: Final = {
    VersionMethod.POST: ("POST", "201"),
    VersionMethod.NEW: ("PUT", "201"),
    VersionMethod.PUT: ("PUT", "200"),
    VersionMethod.PATCH: ("PATCH", "200"),
    VersionMethod.DELETE: ("DELETE", "204"),
}
INCOMPLETE: Final = "history-incomplete"


class HistoryEntry(NamedTuple):
    """One version: the base address asked, the type's name there, what is kept, and its body as that base shows it."""

    base: str
    name: str
    stored: StoredVersion
    body: bytes


def history_bundle(
    bundle_id: str,
    links: list[tuple[str, str]],
    total: int | None,
    entries: list[HistoryEntry],
    first: int,
    system: str,
) -> bytes:
    """Return a Bundle of versions, with a `total` where one is given.

    Where the history begins with a `first` other than 1, its meta says so.
    """
    bundle: JsonObject = {"resourceType": "Bundle", "id": bundle_id}
    if first > 1:
        display = f"Versions before {first} are not kept."
        bundle["meta"] = {"tag": [{"system": f"{system}/outcome", "code": INCOMPLETE, "display": display}]}
    bundle |= {
        "type": "history",
        **({"total": total} if total is not None else {}),
        "link": [{"relation": relation, "url": url} for relation, url in links],
    }
    if entries:
        bundle["entry"] = [_entry(one) for one in entries]
    return write_json(bundle)


def _entry(entry: HistoryEntry) -> Json:
    stored = entry.stored
    place = f"{entry.name}/{stored.id}"
    method, status = REQUESTS[_change(stored)]
    made: JsonObject = {"fullUrl": f"{entry.base}/{place}"}
    if entry.body:
        made["resource"] = orjson.Fragment(entry.body)
    made["request"] = {"method": method, "url": entry.name if method == "POST" else place}
    made["response"] = {
        "status": status,
        "etag": f'W/"{stored.version}"',
        "lastModified": stored.updated_at.isoformat(timespec="milliseconds"),
    }
    return made


def _change(stored: StoredVersion) -> VersionMethod:
    change = VersionMethod(stored.change)
    if change is VersionMethod.UNKNOWN:
        return VersionMethod.POST if stored.version == 1 else VersionMethod.PUT
    return change
