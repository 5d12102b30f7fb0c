"""Literal references in resources: our own addresses made relative, other hosts refused, targets looked up.

The address of an attachment (`url`) that leads to a Binary of this service is one too; any other one is left alone.
"""

import re
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.versions.names import r4_name
from engine.interchange.kernel.outcome import Category, Issue, RefusedError
from engine.interchange.store.transaction import DELETED, ReferenceStatus, StoredVersion, Transaction

# The path of a reference, the object that holds it, and its key there.
Holder = tuple[str, JsonObject, str]

# What attachments refer to.
BINARY: Final = "Binary/"
# Where a survivor names the records whose place it took.
LINK: Final = "Patient.link["
# Elements that are references in STU3 and canonical addresses in R4: definitions and value sets.
DEFINITION: Final = re.compile(r"\.(questionnaire|options|transform|(library|definition)\[\d+\])$")
NESTED: Final = (dict, list)
# Rows of all records that refer to a target, except two; a row of the same parameter may be there already.
REDIRECT: Final = (
    "INSERT INTO reference_index (tenant, key, parameter, target)"
    " SELECT tenant, key, parameter, ? FROM reference_index WHERE tenant=? AND target=? AND key NOT IN (?, ?)"
    " ON CONFLICT DO NOTHING"
)
DROP_TARGET: Final = "DELETE FROM reference_index WHERE tenant=? AND target=? AND key NOT IN (?, ?)"
# A row without a parameter exists only where no parameter names the target.
DROP_UNNAMED: Final = (
    "DELETE FROM reference_index WHERE tenant=? AND target=? AND parameter='' AND EXISTS"
    " (SELECT 1 FROM reference_index AS named WHERE named.key=reference_index.key"
    " AND named.target=reference_index.target AND named.parameter<>'')"
)


class Reference(NamedTuple):
    """A literal reference: its path, and `Type/id`."""

    path: str
    target: str


def normalise_references(resource: JsonObject, base_url: str) -> tuple[Reference, ...]:
    """Make absolute references under our own bases relative, in place, and return all there are.

    RefusedError (422) for other hosts, and for `#id` where nothing of this id is contained; `#` alone is the whole
    resource. A URN is no reference to anything here.
    """
    wrong: list[Issue] = []
    found: list[Reference] = []
    contained = {part.get("id") for part in resource.get("contained", [])}
    for path, holder, key in _holders(resource, resource["resourceType"], []):
        reference = relative(holder[key], base_url)
        if key == "url":
            if reference is not None and reference.startswith(BINARY):
                holder[key] = reference
                found.append(Reference(f"{path}.{key}", reference))
        elif reference is None and DEFINITION.search(path):
            continue
        elif reference is None:
            wrong.append(Issue("The reference must be to a resource on this service.", f"{path}.reference"))
        elif reference.startswith("#") and reference != "#" and reference[1:] not in contained:
            wrong.append(Issue("The resource contains nothing of this id.", f"{path}.reference"))
        else:
            holder["reference"] = reference
            found.append(Reference(f"{path}.reference", reference))
    if wrong:
        raise RefusedError(Category.UNRESOLVED, tuple(wrong))
    return tuple(found)


def check_references(
    transaction: Transaction, references: tuple[Reference, ...], replaced: StoredVersion | None = None
) -> None:
    """Refuse references to resources that the tenant does not have, and to patients who were merged away (422).

    `replaced` is what the write replaces or brings back: a survivor keeps its links to the records whose place it took,
    and a reference to what was deleted since may stay.
    """
    own_id = replaced.id if replaced is not None else ""
    leaving = [reference for reference in references if not reference.target.startswith("#")]
    found = {target: _look_up(transaction, target) for target in {one.target for one in leaving}}
    looked_up = [(one, found[one.target]) for one in leaving]
    missing = [
        Issue("The reference names a resource that does not exist.", one.path)
        for one, stored in looked_up
        if stored is None or (stored.survivor == DELETED and one.target not in _named(replaced))
    ]
    if missing:
        raise RefusedError(Category.UNRESOLVED, tuple(missing))
    merged = [
        Issue(f"Patient/{stored.id} was merged into Patient/{stored.survivor}.", one.path, "already-merged")
        for one, stored in looked_up
        if stored is not None and stored.survivor
        if not (stored.survivor == own_id and one.path.startswith(LINK))
    ]
    if merged:
        raise RefusedError(Category.RULE, tuple(merged))


def repoint(part: JsonObject, source: str, target: str) -> JsonObject:
    """Return a resource, or a part of one, in which every reference to `source` names `target` instead."""
    if isinstance(part, dict):
        return {
            key: target if key == "reference" and _names(value, source) else repoint(value, source, target)
            for key, value in part.items()
        }
    if isinstance(part, list):
        return [repoint(item, source, target) for item in part]
    return part


def _named(stored: StoredVersion | None) -> set[str]:
    return references_in(stored.resource()) if stored is not None and not stored.deleted else set()


def _names(reference: Json, target: str) -> bool:
    return isinstance(reference, str) and local_target(reference) == target


def relative(reference: str, base_url: str) -> str | None:
    """Return a reference as `Type/id` (or `#id`), with R4's name of the type; None where it leads to another host."""
    for base in (f"{base_url}/fhir/R4/", f"{base_url}/fhir/"):
        reference = reference.removeprefix(base)
    type_name, slash, rest = reference.partition("/")
    return None if ":" in type_name else f"{r4_name(type_name)}{slash}{rest}"


def references_in(resource: JsonObject) -> set[str]:
    """Return every literal reference in a resource, however deep."""
    return {holder[key] for _, holder, key in _holders(resource, "", []) if key != "url" or _ours(holder[key])}


def placed_references(resource: JsonObject) -> tuple[Reference, ...]:
    """Return every literal reference in a resource with its path, unchanged."""
    holders = _holders(resource, resource["resourceType"], [])
    return tuple(
        Reference(f"{path}.{key}", holder[key]) for path, holder, key in holders if key != "url" or _ours(holder[key])
    )


def local_target(reference: str) -> str:
    """Return what a relative reference names, as `Type/id` without a version; '' for one into the resource itself."""
    return "" if reference.startswith("#") else reference.partition("/_history/")[0]


def _look_up(transaction: Transaction, reference: str) -> ReferenceStatus | None:
    type_name, _, resource_id = local_target(reference).partition("/")
    return transaction.standing(type_name, resource_id)


def attachments_in(resource: JsonObject) -> set[str]:
    """Return every `Binary/id` that a kept resource has attached."""
    return {holder[key] for _, holder, key in _holders(resource, "", []) if key == "url" and _ours(holder[key])}


def _ours(url: str) -> bool:
    return url.startswith(BINARY)


def _holders(part: Any, path: str, found: list[Holder]) -> list[Holder]:
    """Append what holds a reference in an object or a list, with its place, and return all that was found."""
    if isinstance(part, list):
        for index, item in enumerate(part):
            if isinstance(item, NESTED):
                _holders(item, f"{path}[{index}]", found)
        return found
    if isinstance(part.get("reference"), str):
        found.append((path, part, "reference"))
    elif isinstance(part.get("url"), str) and BINARY in part["url"]:
        found.append((path, part, "url"))
    for key, value in part.items():
        if isinstance(value, NESTED):
            _holders(value, f"{path}.{key}", found)
    return found


def redirected(transaction: Transaction, source: StoredVersion, target: StoredVersion) -> None:
    """Make index rows that name `source` name `target`, except those of these two records."""
    old, new = f"{source.type}/{source.id}", f"{target.type}/{target.id}"
    but = (source.key, target.key)
    tenant, execute = transaction.tenant, transaction.connection.execute
    execute(REDIRECT, (new, tenant, old, *but))
    execute(DROP_TARGET, (tenant, old, *but))
    execute(DROP_UNNAMED, (tenant, new))
