"""Of what kind each key of a resource, data type or table file is: a text, a map or a list; checked before the rest."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

MAP: Final = "a map such as {name: value}"
LIST: Final = "a list such as [value]"
TEXT: Final = "a text"
KINDS: Final[Mapping[type, str]] = {dict: MAP, list: LIST, str: TEXT}
# Keys that may be of one kind, or of several.
OF: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(
        ("elements", "merged", "new", "merge", "identity", "status", "segments", "kinds", "codes"), (dict,)
    ),
    **dict.fromkeys(("patient", "late", "from", "find", "part", "within", "list", "along", "when", "target"), (str,)),
    **dict.fromkeys(("needs", "grows", "stays", "key"), (str, list)),
    **dict.fromkeys(("levels", "also"), (list,)),
    **dict.fromkeys(("missing", "unmapped"), (dict, str)),
    "visit": (str,),
    "retired": (dict,),
}
# Kinds of the values of a map, and of the items of a list, where these are one.
WITHIN: Final[Mapping[str, type]] = {"levels": dict, "kinds": dict, "also": dict}


def misshapen(value: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield the path of each part of a file that is of another kind than it must be, what it is, and what would do."""
    for key, kinds in OF.items():
        part = value.get(key)
        if part is None:
            continue
        if not isinstance(part, kinds):
            yield (key,), _found(part), f"expected {' or '.join(KINDS[one] for one in kinds)}"
        elif key in WITHIN:
            inner: Any = value[key]
            parts: Iterable[tuple[Any, Any]] = inner.items() if isinstance(inner, dict) else enumerate(inner)
            wrong = ((name, one) for name, one in parts if not isinstance(one, WITHIN[key]))
            yield from (((key, name), _found(one), f"expected {KINDS[WITHIN[key]]}") for name, one in wrong)


def _found(part: Any) -> str:
    """Return what a part is, in words."""
    shown = {dict: "a map", list: "a list", type(None): "nothing"}.get(type(part))
    return f"found {shown or repr(str(part)[:60])}"
