"""Constraints of FHIR profiles: cardinality, fixed values and patterns, small required value sets, and slices.

A pack keeps those of its guide as `profiles.json`. Invariants (FHIRPath), large value sets and profiles without data
are not checked, and are named as such.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = "profiles.json"
CHOICE: Final = "[x]"
Constraint = Mapping[str, Any]


class ProfileSet(NamedTuple):
    """The profiles of a guide by their urls, with the source of each; `unchecked`: what the data leaves out."""

    guide: str
    profiles: Mapping[str, Constraint]
    unchecked: tuple[str, ...]


def read_profiles(folder: Path) -> ProfileSet:
    """Return the profiles of a pack's folder; without a file none, and a line that says so."""
    file = folder / FILE
    if not file.is_file():
        return ProfileSet(folder.name, {}, (f"every profile: the pack {folder.name} has no {FILE}",))
    value = json.loads(file.read_text("utf-8"))
    return ProfileSet(value["guide"], value["profiles"], tuple(value["not_checked"]))


def claimed(resource: Mapping[str, Any]) -> list[str]:
    """Return the profiles that a resource claims, without their versions."""
    return [url.partition("|")[0] for url in (resource.get("meta") or {}).get("profile") or ()]


def violations(resource: Mapping[str, Any], url: str, known: ProfileSet) -> list[str]:
    """Return what of a known profile does not hold, by the element's path; never its value."""
    return list(_within(resource, known.profiles[url], str(resource.get("resourceType", "")), known))


def _within(value: Mapping[str, Any], node: Constraint, path: str, known: ProfileSet) -> Iterator[str]:
    """Yield the violations of the parts of an element."""
    for name, part in (node.get("parts") or {}).items():
        at, items = f"{path}.{name}", _items(value, name)
        yield from _counted(items, part, at)
        for item in items:
            yield from _of_item(item, part, at, known)
        for one in part.get("slices") or ():
            own = [item for item in items if _has(item, one["by"])]
            yield from _counted(own, one, f"{at}:{one['slice']}")
            for item in own:
                yield from _of_item(item, one, f"{at}:{one['slice']}", known)


def _of_item(item: Any, node: Constraint, path: str, known: ProfileSet) -> Iterator[str]:
    """Yield the violations of one value of an element, and of the profile of its type."""
    if "fixed" in node and item != node["fixed"]:
        yield f"{path}: not the fixed value of the profile"
    if "pattern" in node and not _fits(item, node["pattern"]):
        yield f"{path}: not as the pattern of the profile"
    if "codes" in node and not _is_absent(item) and _codes(item).isdisjoint(node["codes"]):
        yield f"{path}: no code of the required value set ({', '.join(node['codes'])})"
    if isinstance(item, dict):
        yield from _within(item, node, path, known)
        if node.get("profile") in known.profiles:
            yield from _within(item, known.profiles[node["profile"]], path, known)


def _counted(items: list[Any], node: Constraint, path: str) -> Iterator[str]:
    least, most = node.get("min", 0), node.get("max", "*")
    if len(items) < least or (most != "*" and len(items) > int(most)):
        yield f"{path}: {len(items)} found, the profile wants {least}..{most}"


def _items(value: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values of an element; a primitive with extensions alone counts, for it says why it is absent."""
    if name.endswith(CHOICE):
        stem = name.removesuffix(CHOICE)
        return [part for key, part in value.items() if key.startswith(stem) and key[len(stem) :][:1].isupper()]
    found = value.get(name, value.get(f"_{name}"))
    return found if isinstance(found, list) else [] if found is None else [found]


def _has(item: Any, by: Mapping[str, Any]) -> bool:
    """True if an item is one of a slice: it has each value of the discriminator."""
    return all(any(_fits(one, wanted) for one in _at(item, path.split("."))) for path, wanted in by.items())


def _at(item: Any, path: list[str]) -> list[Any]:
    if path in ([], ["$this"]):
        return [item]
    return [one for part in _items(item, path[0]) for one in _at(part, path[1:])] if isinstance(item, dict) else []


def _fits(value: Any, pattern: Any) -> bool:
    """True if a value has all that a pattern says; of a list, some item for each of the pattern's."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(_fits(value.get(key), part) for key, part in pattern.items())
    if isinstance(pattern, list):
        return isinstance(value, list) and all(any(_fits(one, part) for one in value) for part in pattern)
    return bool(value == pattern)


def _is_absent(item: Any) -> bool:
    """True if an element has extensions alone, such as the reason why it is absent."""
    return isinstance(item, dict) and not item.keys() - {"extension", "id"}


def _codes(item: Any) -> set[str]:
    """Return the codes of a code, a Coding or a CodeableConcept."""
    if isinstance(item, dict):
        return {str(one.get("code")) for one in item.get("coding", [item]) if isinstance(one, dict)}
    return {str(item)}
