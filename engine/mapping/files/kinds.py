"""The kind of each key of a resource, data type or table file: a text, a map or a list; checked first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

MAP: Final = "a map such as {name: value}"
LIST: Final = "a list such as [value]"
TEXT: Final = "a text"
KINDS: Final[Mapping[type, str]] = {dict: MAP, list: LIST, str: TEXT}
# The kind, or kinds, of each key.
OF: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(
        ("elements", "merged", "new", "merge", "identity", "status", "segments", "kinds", "codes"), (dict,)
    ),
    **dict.fromkeys(("patient", "late", "from", "find", "part", "within", "list", "along", "when", "target"), (str,)),
    **dict.fromkeys(("needs", "grows", "stays", "key"), (str, list)),
    **dict.fromkeys(("levels", "also"), (list,)),
    **dict.fromkeys(("missing", "unmapped"), (dict, str)),
    "visit": (str,),
    "rows": (str,),
    "keys": (list,),
    "retired": (dict,),
}
# The kind of a map's values, and of a list's items, where all have the same.
WITHIN: Final[Mapping[str, type]] = {"levels": dict, "kinds": dict, "also": dict}


_WORDS: Final = (str,)
_LISTED: Final = (str, list)
_IDENTITY: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("type", "admitted", "system", "display", "types.*", "value.#", "authority.#.#"), _WORDS),
    **dict.fromkeys((f"{one}{at}.type" for one in ("keys", "else", "also", "merged") for at in ("", ".#")), _WORDS),
    **dict.fromkeys((f"{one}{at}.join" for one in ("keys", "else", "also", "merged") for at in ("", ".#")), (list,)),
    **dict.fromkeys(("keys.#", "else.#", "also.#", "merged.#"), (str, dict)),
    **dict.fromkeys(("value", "authority", "authority.#"), _LISTED),
    **dict.fromkeys(("types", "number"), (dict,)),
}
_ROW: Final = ("code", "display", "system", "original")
# The same for deeper paths; `*` is any name of a map, `#` any item of a list.
BELOW: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("needs.#", "grows.#", "stays.#", "key.#", "missing.flag", "missing.unless", "hl7"), _WORDS),
    **dict.fromkeys(("merge.to", "merge.part", "status.element", "status.history.*", "status.trail.*"), _WORDS),
    **dict.fromkeys(("status.moves.#.when", "status.moves.#.otherwise", "system", "table", "datatype", "date"), _WORDS),
    **dict.fromkeys((f"status.moves.#.{one}" for one in ("only", "never", "reopens")), _LISTED),
    **dict.fromkeys(("status.ended", "status.forgets"), _LISTED),
    **dict.fromkeys(("status.history", "status.trail"), (dict,)),
    **{
        f"{at}.{key}": kinds
        for at in ("identity", "levels.#.identity", "kinds.*.identity")
        for key, kinds in _IDENTITY.items()
    },
    **dict.fromkeys((f"{at}.{one}" for at in ("levels.#", "kinds.*") for one in ("identity", "elements")), (dict,)),
    "kinds.*.from": _WORDS,
    "kinds.*.also": (list,),
    "kinds.*.also.#": (dict,),
    "segments.*.elements": (dict,),
    "segments.*.visit": (str, dict),
    "segments.*.key.#": _WORDS,
    **dict.fromkeys((f"segments.*.{one}" for one in ("action", "when", "within", "list", "same_key", "like")), _WORDS),
    **dict.fromkeys((f"segments.*.{one}" for one in ("key", "with", "led_by")), _LISTED),
    **dict.fromkeys((f"{at}.{one}" for at in ("codes.*", "unmapped.default") for one in _ROW), _WORDS),
    "unmapped.default": (str, dict),
    "keys.#": _WORDS,
}
# The same for an event table, whose lines are checked further when they are read.
EVENT_TABLE: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("others", "identity.untyped", "historic.*", "identity.prefer.#.*", "identity.from.#.*"), _WORDS),
    **dict.fromkeys(("events.*.rule", "events.*.skip", "events.*.unhandled"), _WORDS),
    **dict.fromkeys((f"filters.#.{one}" for one in ("rule", "when", "do")), _WORDS),
    **dict.fromkeys(("identity.not_identity", "identity.placeholders", "placeholder_people.*", "resources"), _LISTED),
}


def misshapen(value: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield the path of each part of a file that has the wrong kind, with the found and the expected kind."""
    if "mapping" not in value:
        yield from _at_the_top(value)
    for pattern, kinds in (EVENT_TABLE if "mapping" in value else BELOW).items():
        for path, part in _parts(value, pattern.split("."), ()):
            if part is not None and not isinstance(part, kinds):
                yield path, _kind_in_words(part), f"expected {' or '.join(KINDS[kind] for kind in kinds)}"


def without(value: dict[str, Any], path: tuple[str | int, ...]) -> None:
    """Remove the value at a path; for an item of a list, the whole list."""
    while isinstance(path[-1], int):
        path = path[:-1]
    inner: Any = value
    for step in path[:-1]:
        inner = inner.get(step) if isinstance(inner, dict) else inner[int(step)] if isinstance(inner, list) else None
    if isinstance(inner, dict):
        inner.pop(path[-1], None)


def _parts(
    value: Any, steps: Sequence[str], path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield each part that matches a pattern, with its path."""
    if not steps:
        yield path, value
        return
    step, rest = steps[0], steps[1:]
    if step == "#":
        for number, one in enumerate(value if isinstance(value, list) else ()):
            yield from _parts(one, rest, (*path, number))
    elif isinstance(value, dict):
        for name in value if step == "*" else [step] if step in value else ():
            yield from _parts(value[name], rest, (*path, name))


def _at_the_top(value: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    for key, kinds in OF.items():
        part = value.get(key)
        if part is None:
            continue
        if not isinstance(part, kinds):
            yield (key,), _kind_in_words(part), f"expected {' or '.join(KINDS[kind] for kind in kinds)}"
        elif key in WITHIN:
            inner: Any = value[key]
            parts: Iterable[tuple[Any, Any]] = inner.items() if isinstance(inner, dict) else enumerate(inner)
            wrong = ((name, one) for name, one in parts if not isinstance(one, WITHIN[key]))
            yield from (((key, name), _kind_in_words(one), f"expected {KINDS[WITHIN[key]]}") for name, one in wrong)


def _kind_in_words(part: Any) -> str:
    """Return the kind of a part, in words."""
    shown = {dict: "a map", list: "a list", type(None): "nothing"}.get(type(part))
    return f"found {shown or repr(str(part)[:60])}"
