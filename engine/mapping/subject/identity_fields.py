"""The identity fields of a patient: PID-3, PID-2 and PID-4, and fields that an author names with a type.

PID-19 (SS) and fields of Z segments have no authority of their own and no counterpart in MRG: their system is the
author's, and merges, changes of number and moves of numbers, which have to name both sides, do not use them.
"""

import re
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

from engine.config.text import URI
from engine.mapping.files.reference import nearest
from engine.mapping.language.identifier import MERGED, NamedField

FROM: Final = "from"
FIELD_KEYS: Final = frozenset({"field", "type", "system"})
TYPE: Final = re.compile(r"[A-Z][A-Z0-9]{0,19}")
NAMED: Final = re.compile(r"PID-19|Z[A-Z0-9]{2}-[1-9]\d{0,2}")
EXPECTED: Final = "expected PID-3, PID-2 or PID-4, or {field: PID-19, type: SS, system: URI} (a Z segment's: ZID-3)"

Add = Callable[[tuple[str | int, ...], str, str], None]


def identity_fields(
    value: Any, not_identity: Set[str], systems: Mapping[str, str], add: Add
) -> tuple[tuple[str, ...], dict[str, NamedField]]:
    """Return the fields of identities as the event file lists them, then those that it names with type and system.

    Faults go to `add`: path, what was found, what was expected.
    """
    fields: list[str] = []
    named: dict[str, NamedField] = {}
    for number, one in enumerate(value if isinstance(value, list) else [value]):
        path = ("identity", FROM, number) if isinstance(value, list) else ("identity", FROM)
        name = str(one.get("field") or "") if isinstance(one, dict) else str(one)
        if name in fields or name in named:
            add(path, f"{name} twice", "name each field once")
        elif not isinstance(one, dict):
            if name not in MERGED:
                add(path, f"found {name!r}", EXPECTED)
            fields.append(name)
        elif (field := _named(path, one, not_identity, systems, add)) is not None:
            named[name] = field
    if not fields:
        add(("identity", FROM), "no field of identifiers", "name PID-3 as well: merges are of its numbers")
    return tuple(fields), named


def _named(
    path: tuple[str | int, ...], one: dict[str, Any], not_identity: Set[str], systems: Mapping[str, str], add: Add
) -> NamedField | None:
    """Return type and system of a field; None if they are invalid."""
    for key in one.keys() - FIELD_KEYS:
        add((*path, key), f"unknown key {key!r}", nearest(key, FIELD_KEYS))
    name, type_ = (str(one.get(key) or "") for key in ("field", "type"))
    system = str(one.get("system") or systems.get(type_) or "")
    if not NAMED.fullmatch(name):
        add((*path, "field"), f"found {name!r}", EXPECTED)
    elif not TYPE.fullmatch(type_):
        add(
            path,
            f"found type {type_!r}" if type_ else "no type",
            "say of which type (table 0203) its numbers are, such as SS",
        )
    elif type_ in not_identity:
        add(path, f"{type_} is in not_identity", f"numbers of a type stand for the person everywhere or nowhere: "
            f"take {type_} out of not_identity, or this line away")  # fmt: skip
    elif not URI.fullmatch(system):
        add(
            path,
            f"found system {system!r}" if system else "no system",
            "say in which system its numbers are, an absolute URI",
        )
    else:
        return NamedField(type_, system)
    return None
