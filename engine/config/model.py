"""The model of every authored value: frozen, unknown keys refused; and what it refuses, said as a person needs it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Tag, ValidationError
from pydantic.fields import FieldInfo

Step = str | int
Placed = tuple[tuple[Step, ...], str, str]

# How many names a hint tells.
MOST_NAMED: Final = 5

# Kinds of pydantic's faults to what would do instead; the names in braces are of the fault's context.
_EXPECTED: Final[Mapping[str, str]] = {
    "missing": "add it: this key is required",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a word or a text",
    "tuple_type": "a list, such as [one, two]",
    "list_type": "a list, such as [one, two]",
    "dict_type": "a block of keys",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
}
# Kinds of values with a fixed list, and how pydantic writes that list.
_CLOSED: Final = frozenset({"literal_error", "enum"})
_NAME: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")
# For a kind of fault that no model has yet.
_OTHERWISE: Final = "another value"

# How the tag of a model begins that stands in a list of several kinds: such a tag is no place of the file.
TAG: Final = "type: "
# The kind of a key that a model does not have.
UNKNOWN: Final = "extra_forbidden"
# Kinds of our own whose value is never shown: it may be a secret.
_UNSHOWN: Final = {
    "literal_secret": "a secret written in the file",
    "no_hash": "no argon2id hash",
    "no_header": "a text that no header can have",
}
# Where a block belongs, a plain value is not shown: `auth: …` may hold a secret.
_BLOCKS: Final = frozenset({"dict_type", "model_type", "model_attributes_type"})


def faults_of(error: ValidationError) -> list[Any]:
    """Return the faults of a value, each at its place in the file: without the tag of the model that was chosen."""
    faults: list[Any] = error.errors(include_url=False)
    for fault in faults:
        fault["loc"] = tuple(step for step in fault["loc"] if not str(step).startswith(TAG))
    return faults


def words(fault: Mapping[str, Any], model: type[BaseModel], value: Any = None) -> tuple[str, str]:
    """Return what was found and what would do, for one fault that pydantic reports of `model`; never a secret.

    `value`: the whole value at hand, by which a place with several models has one.
    """
    kind, location = fault["type"], fault["loc"]
    if kind == "missing":
        return "missing", _EXPECTED[kind]
    if kind == UNKNOWN:
        return "unknown key", nearest(str(location[-1]), keys_at(model, location[:-1], value), _handbook(model))
    if kind in _UNSHOWN:
        return _UNSHOWN[kind], str(fault["msg"])
    if kind == "value_error" and isinstance(fault.get("input"), dict):
        return "does not fit together", _expected(fault, model)
    if kind in _BLOCKS and isinstance(fault.get("input"), str):
        return "found a plain value", _expected(fault, model)
    return f"found {_shown(fault.get('input'))}", _expected(fault, model)


def telling(faults: Sequence[Any]) -> list[Any]:
    """Return the faults that say something new.

    Left out are a list that is called too short only because its items were refused, a key that is called missing
    where a misspelt one is next to it, and the rest of a hash that was cut at its commas for want of quotes.
    """
    unknown: dict[tuple[Step, ...], list[str]] = {}
    for fault in faults:
        if fault["type"] == UNKNOWN:
            unknown.setdefault(fault["loc"][:-1], []).append(str(fault["loc"][-1]))
    cut = {fault["loc"][:-1] for fault in faults if fault["type"] == "no_hash"}
    return [fault for fault in faults if not _echo(fault, unknown, cut)]


def _echo(fault: Any, unknown: Mapping[tuple[Step, ...], list[str]], cut: set[tuple[Step, ...]]) -> bool:
    if fault["type"] == UNKNOWN:
        return fault["loc"][:-1] in cut and "=" in str(fault["loc"][-1])
    if fault["type"] == "too_short":
        return len(fault["input"]) >= int(fault["ctx"]["min_length"])
    siblings = unknown.get(fault["loc"][:-1], [])
    return fault["type"] == "missing" and bool(get_close_matches(str(fault["loc"][-1]), siblings, n=1))


def nearest(name: str, valid: Iterable[str], where: str = "") -> str:
    """Return advice on an unknown name: the nearest valid one, else the five most like it, and `where` all stand."""
    names = sorted(set(valid))
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"valid here: {folded(names, name, where)}" if names else "remove it"


def folded(names: Sequence[str], word: str = "", where: str = "") -> str:
    """Return names as a list for a reader: the five most like a word, or the first; how many more, and `where`."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    shown = get_close_matches(word, names, n=MOST_NAMED, cutoff=0.0) if word else names[:MOST_NAMED]
    return f"{', '.join(shown)} and {len(names) - len(shown)} more" + (f" (all: {where})" if where else "")


def keys_at(model: type[BaseModel], location: tuple[Step, ...], value: Any = None) -> tuple[str, ...]:
    """Return the keys that may stand at a place in a model's file; none where the place is no block of keys."""
    found = inner_model(*_at(model, location, value))
    return tuple(_written(found)) if found else ()


def field_at(model: type[BaseModel], location: tuple[Step, ...], value: Any = None) -> FieldInfo | None:
    """Return the field at a path of a model's file; None where it is none, as an item of a list."""
    found = inner_model(*_at(model, location[:-1], value))
    fields = found.model_fields.items() if found else ()
    return next((field for name, field in fields if (field.alias or name) == location[-1]), None)


def inner_model(kind: Any, value: Any = None) -> type[BaseModel] | None:
    """Return the model that a field's annotation holds, alone or as an alternative; None where none does.

    Of several the one that the annotation's discriminator chooses by the value there, else the first.
    """
    found = inner_models(kind)
    choose = next((mark for mark in _marks(kind) if isinstance(mark, Discriminator)), None)
    tag = choose.discriminator(value) if choose is not None and callable(choose.discriminator) else None
    return found.get(str(tag), next(iter(found.values()), None))


def inner_models(kind: Any) -> dict[str, type[BaseModel]]:
    """Return the models that a field's annotation holds as alternatives, by their tags where they have any."""
    kind = _bare(kind)
    parts = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    tags = [next((mark.tag for mark in _marks(part) if isinstance(mark, Tag)), part) for part in parts]
    models = zip(tags, map(_bare, parts), strict=True)
    return {str(tag): part for tag, part in models if isinstance(part, type) and issubclass(part, BaseModel)}


def _marks(kind: Any) -> tuple[Any, ...]:
    return get_args(kind)[1:] if get_origin(kind) is Annotated else ()


def _handbook(model: type[BaseModel]) -> str:
    """Return the command that shows all keys of a model's file and their values; empty where there is none."""
    return str(getattr(model, "handbook", ""))


def _expected(fault: Mapping[str, Any], model: type[BaseModel]) -> str:
    context = {name: f"{one:.15g}" if isinstance(one, float) else one for name, one in fault.get("ctx", {}).items()}
    if fault["type"] == "value_error":
        return str(context["error"])
    if fault["type"] not in _CLOSED:
        return _EXPECTED.get(fault["type"], _OTHERWISE).format_map(context)
    given = fault["input"] if isinstance(fault.get("input"), str) else ""
    names = [first or second for first, second in _NAME.findall(str(context["expected"]))]
    near = get_close_matches(given, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    known = [repr(one) for one in names]
    expected = context["expected"] if len(known) <= MOST_NAMED else folded(known, given, _handbook(model))
    return f"one of {expected}{hint}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list | tuple | BaseModel):
        return "a list" if isinstance(value, list | tuple) else "this block"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _at(kind: Any, location: tuple[Step, ...], value: Any) -> tuple[Any, Any]:
    """Return the annotation at a place below another one, and what a value has there."""
    for step in location:
        kind = _inside(kind, step, value)
        try:
            value = value[step]
        except (TypeError, LookupError):
            value = None
    return kind, value


def _inside(kind: Any, step: Step, value: Any) -> Any:
    model = inner_model(kind, value)
    if model:
        return _written(model).get(str(step))
    inner = [part for part in get_args(_bare(kind)) if part is not Ellipsis]
    return inner[-1] if inner else None


def _written(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _bare(kind: Any) -> Any:
    return _bare(get_args(kind)[0]) if get_origin(kind) is Annotated else kind


class Frozen(BaseModel):
    """A frozen model that refuses unknown keys; each rule yields path, what was found, and what would do."""

    # Of the model of a whole file: the command that shows all of its keys, and what they may be.
    handbook: ClassVar[str] = ""
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    def conflicts(self) -> Iterator[Placed]:
        """Yield the keys that do not fit together."""
        yield from ()

    def warnings(self) -> Iterator[Placed]:
        """Yield what is allowed and rarely meant."""
        yield from ()

    def undecided(self) -> Iterator[Placed]:
        """Yield placeholders, which a draft has in the place of what only a person can know."""
        yield from ()

    def unavailable(self) -> Iterator[Placed]:
        """Yield what this machine does not have: files, certificates, variables of the environment."""
        yield from ()


def answers(value: Any, ask: Callable[[Frozen], Iterator[Placed]], at: tuple[Step, ...] = ()) -> Iterator[Placed]:
    """Yield what every model within a value answers to `ask`, with its whole path."""
    if isinstance(value, Frozen):
        yield from (((*at, *path), found, expected) for path, found, expected in ask(value))
        fields = type(value).model_fields.items()
        parts: list[tuple[Step, Any]] = [(field.alias or name, getattr(value, name)) for name, field in fields]
    elif isinstance(value, dict):
        parts = list(value.items())
    else:
        parts = list(enumerate(value)) if isinstance(value, tuple) else []
    for step, part in parts:
        yield from answers(part, ask, (*at, step))
