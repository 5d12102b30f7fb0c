"""From query parameters to criteria, with every rule about names, modifiers, prefixes, repeats and values."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.addresses import system_in_r4
from engine.fhir.versions.codes import CODES
from engine.fhir.versions.direction import Direction
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, repeatable
from engine.interchange.store.references import relative
from engine.interchange.store.search.criterion import Criterion, Parameter, ParameterKind, Rank, SearchQuery
from engine.interchange.store.search.date import Span, span
from engine.interchange.store.search.text import HIGHEST, LONGEST, contact, fold, short, split, unescape

Test = tuple[str, tuple[str | int, ...]]
Pairs = Iterable[tuple[str, str]]

# An id, or a type and an id: any other value would find nothing, as if a chart were empty.
TARGET: Final = re.compile(rf"(?:([A-Za-z]+)/)?(?:{ID.pattern})")
# Parameters that name resources of one type, whatever the element may refer to.
OF_ONE_TYPE: Final = frozenset({"patient", "beneficiary", "encounter"})
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
# Which parameters may be repeated at all (the specification's search rule 7, and those that are no criteria).
REPEATABLE: Final = "Only date of DocumentReference, _tag and _security may be repeated, each of which must hold."
# A day, or a moment of it, and perhaps a prefix before it.
DAY: Final = re.compile(r"(?:[a-z]{2})?(\d{4}-\d\d-\d\d)(?:T.*)?", re.ASCII)
MODIFIERS: Final = "there are :exact and :contains on texts, and :missing"
SUPPORTED_PREFIXES: Final = ("eq", "ge", "gt", "le", "lt")
OTHER_PREFIXES: Final = ("ne", "sa", "eb", "ap")
# The addresses under which a definition of this service may be named.
BASES: Final = ("/fhir/R4", "/fhir")
# More alternatives than an address holds; a query has at most 500 parts.
MAX_VALUES: Final = 400

DATE_TESTS: Final[dict[str, Callable[[Span], Test]]] = {
    "eq": lambda at: ("low >= ? AND low <= ? AND high <= ?", (at[0], at[1], at[1])),
    "ge": lambda at: ("high >= ?", (at[0],)),
    "gt": lambda at: ("high > ?", (at[1],)),
    "le": lambda at: ("low <= ?", (at[1],)),
    "lt": lambda at: ("low < ?", (at[0],)),
}


def parse_search(
    type_name: str,
    parameters: Mapping[str, Parameter],
    pairs: Pairs,
    base_url: str,
    version: FhirVersion = FhirVersion.R4,
) -> SearchQuery:
    """Return the search that query parameters ask for; RefusedError for what is unknown, repeated or malformed.

    `base_url` is the service's own, for references that are given as absolute addresses. Codes and their systems are
    those of `version`.
    """
    seen: dict[str, str] = {}
    criteria: list[Criterion] = []
    for key, value in pairs:
        name, _, modifier = key.partition(":")
        parameter = parameters.get(name)
        if parameter is None:
            raise _refuse(Category.UNSUPPORTED, name, f"The search parameter {repeatable(name)} is not supported.")
        if name in seen and not parameter.repeatable:
            raise _repeated(type_name, name, parameter.kind, (seen[name], value), charted="patient" in parameters)
        seen[name] = value
        criteria.append(_criterion(parameter, modifier, value, base_url, version))
    return SearchQuery(type_name, tuple(criteria))


def _repeated(
    type_name: str, name: str, kind: ParameterKind, values: tuple[str, str], *, charted: bool
) -> RefusedError:
    """Return the refusal of a parameter that is given twice, with a form of the search that is accepted.

    `charted`: the type is searched by patient. Only the dates of a chart are repeated in the text.
    """
    text = f"The search parameter {name} is given more than once. {REPEATABLE}"
    if kind not in {ParameterKind.DATE, ParameterKind.UPDATED}:
        return _refuse(Category.BAD_VALUE, name, f"{text} For any of several values write {name}=a,b.")
    text += f" For a span write {name} once, with a month or a year (2024-05), or several of them (2024-05,2024-06)"
    if kind is ParameterKind.DATE and charted:
        days = sorted(found[1] for value in values if (found := DAY.fullmatch(value)))
        first, last = days if len(days) == len(values) else ("FIRST-DAY", "LAST-DAY")
        text += f"; or GET Patient/ID/$everything?_type={type_name}&start={first}&end={last}, whose days both count"
    return _refuse(Category.BAD_VALUE, name, f"{text}.")


def _criterion(parameter: Parameter, modifier: str, value: str, base_url: str, version: FhirVersion) -> Criterion:
    if modifier == "missing":
        return _missing(parameter, value)
    values = split(value, ",")
    if any(item == "" for item in values):
        raise _empty(parameter)
    if len(values) > MAX_VALUES:
        text = f"The search parameter {parameter.name} has more than {MAX_VALUES} values."
        raise _refuse(Category.TOO_COSTLY, parameter.name, text)
    if modifier and not (parameter.kind is ParameterKind.STRING and modifier in {"exact", "contains"}):
        raise _refuse(
            Category.UNSUPPORTED,
            parameter.name,
            f"The modifier {repeatable(modifier)} is not supported on {parameter.name}; {MODIFIERS}.",
        )
    if parameter.kind in {ParameterKind.DATE, ParameterKind.UPDATED}:
        return _dates(parameter, values)
    if parameter.kind in {ParameterKind.TOKEN, ParameterKind.IDENTIFIER}:
        return _tokens(parameter, values, version)
    rank = Rank.MANY if modifier == "contains" else parameter.rank
    return Criterion(parameter, tuple(_test(parameter, modifier, item, base_url) for item in values), rank)


def _test(parameter: Parameter, modifier: str, item: str, base_url: str) -> Test:
    if parameter.kind is ParameterKind.STRING:
        return _string(parameter, modifier, unescape(item))
    if parameter.kind is ParameterKind.REFERENCE:
        return _reference(parameter, item, base_url)
    if parameter.kind in {ParameterKind.URI, ParameterKind.CANONICAL}:
        return _uri(parameter, unescape(item), base_url)
    if parameter.kind is ParameterKind.CONTACT:
        return _contact(parameter, item)
    if ID.fullmatch(item) is None:
        raise _refuse(Category.BAD_VALUE, parameter.name, f"The value of {parameter.name} is no id of a resource.")
    return "id = ?", (item,)


def _missing(parameter: Parameter, value: str) -> Criterion:
    if value not in {"true", "false"}:
        raise _refuse(Category.BAD_VALUE, parameter.name, f"{parameter.name}:missing is either true or false.")
    return Criterion(parameter, (), Rank.PROBE, missing=value == "true")


def _string(parameter: Parameter, modifier: str, value: str) -> Test:
    folded, value = fold(value)[:LONGEST], value[:LONGEST]
    if not folded:
        raise _empty(parameter)
    if modifier == "exact":
        return "folded = ? AND exact = ?", (folded, value)
    if modifier == "contains":
        return "instr(folded, ?) > 0", (folded,)
    return "folded >= ? AND folded < ?", (folded, folded + HIGHEST)


def _reference(parameter: Parameter, value: str, base_url: str) -> Test:
    target = relative(unescape(value), base_url)
    match = TARGET.fullmatch(target) if target is not None else None
    if target is None or match is None:
        text = f"The value of {parameter.name} is neither an id nor the address of a resource on this service."
        raise _refuse(Category.BAD_VALUE, parameter.name, text)
    if match[1] and parameter.name in OF_ONE_TYPE and match[1] not in parameter.targets:
        text = f"The value of {parameter.name} names no {' or '.join(parameter.targets)}."
        raise _refuse(Category.BAD_VALUE, parameter.name, text)
    targets = (target,) if "/" in target else tuple(f"{one}/{target}" for one in parameter.targets)
    return f"target IN ({', '.join('?' * len(targets))})", targets


def _uri(parameter: Parameter, value: str, base_url: str) -> Test:
    """Return the test of an address; that of a definition kept here is any of those that lead to it."""
    if value.split() != [value]:
        raise _refuse(Category.BAD_VALUE, parameter.name, f"The value of {parameter.name} has a blank in it.")
    if parameter.kind is ParameterKind.URI:
        return "code = ?", (short(value),)
    target = relative(value, base_url) or ""
    local = target if "/" in target else f"{parameter.targets[0]}/{value}" if ":" not in value else ""
    found = dict.fromkeys((value, local, *(f"{base_url}{base}/{local}" for base in BASES)) if local else (value,))
    return f"code IN ({', '.join('?' * len(found))})", tuple(map(short, found))


def _dates(parameter: Parameter, values: list[str]) -> Criterion:
    tests: list[Test] = []
    rank = parameter.rank
    for value in values:
        prefix = value[:2] if value[:2].isalpha() else "eq"
        text = value[2:] if value[:2].isalpha() else value
        prefix = dict(parameter.prefixes).get(prefix, prefix)
        if prefix in OTHER_PREFIXES:
            raise _refuse(
                Category.UNSUPPORTED, parameter.name, f"The prefix {prefix} is not supported on {parameter.name}."
            )
        at = span(text)
        if prefix not in SUPPORTED_PREFIXES or at is None:
            raise _refuse(Category.BAD_VALUE, parameter.name, f"The value of {parameter.name} is no date.")
        if prefix != "eq":
            rank = Rank.MOST
        elif len(text) < 10:
            rank = max(rank, Rank.MANY)
        test, arguments = DATE_TESTS[prefix](at)
        if parameter.kind is ParameterKind.UPDATED:
            test = test.replace("low", "updated_ms").replace("high", "updated_ms")
        tests.append((test, arguments))
    return Criterion(parameter, tuple(tests), rank)


def _tokens(parameter: Parameter, values: list[str], version: FhirVersion) -> Criterion:
    column = "value" if parameter.kind is ParameterKind.IDENTIFIER else "code"
    aliases, former = dict(parameter.aliases), _codes(parameter) if version is FhirVersion.STU3 else {}
    tests: list[Test] = []
    rank = parameter.rank
    for item in values:
        parts = _parts(parameter, item)
        given = parts[0] if len(parts) > 1 else ""
        _check_blanks(parameter, given, parts[-1])
        implied = bool(parameter.implied) and given.startswith(parameter.implied)
        code = aliases.get(parts[-1].lower(), parts[-1])
        # STU3 renames only codes of FHIR's own systems.
        code = former.get(code.lower(), code) if implied or not given else code
        if parameter.codes and code not in parameter.codes:
            text = f"{parameter.name} is one of {', '.join(parameter.codes)}."
            raise _refuse(Category.BAD_VALUE, parameter.name, text)
        either = parameter.kind is ParameterKind.TOKEN or version is FhirVersion.STU3
        system = system_in_r4(given) if either else given
        code, system = short(code), short(system)
        if len(parts) == 1 or (implied and code):
            tests.append((f"{column} = ?", (code,)))
        elif code:
            tests.append((f"{column} = ? AND system = ?", (code, system)))
        else:
            rank = Rank.MOST
            tests.append(("system = ?", (system,)))
    return Criterion(parameter, tuple(tests), rank)


def _check_blanks(parameter: Parameter, system: str, code: str) -> None:
    """Refuse a system, code or value that cannot exist: with outer blanks, or with any blank in a system."""
    if system and system.split() != [system]:
        raise _refuse(Category.BAD_VALUE, parameter.name, f"The system of {parameter.name} has a blank in it.")
    if code != code.strip() or (parameter.kind is ParameterKind.TOKEN and CONTROL.search(code)):
        text = f"The value of {parameter.name} begins or ends with a blank, or has a control character."
        raise _refuse(Category.BAD_VALUE, parameter.name, text)


def _contact(parameter: Parameter, item: str) -> Test:
    """Return the test of a telephone number or another address; `phone|` before it names its system."""
    parts = _parts(parameter, item)
    system, code = parts[0] if len(parts) > 1 else "", short(contact(parts[-1]))
    if system and parameter.system not in {"", system}:
        text = f"{parameter.name} has no system but {parameter.system}."
        raise _refuse(Category.BAD_VALUE, parameter.name, text)
    if not code:
        if not system:
            raise _empty(parameter)
        return "system = ?", (short(system),)
    return ("code = ? AND system = ?", (code, short(system))) if system else ("code = ?", (code,))


def _parts(parameter: Parameter, item: str) -> list[str]:
    parts = [unescape(part) for part in split(item, "|")]
    if len(parts) > 2:
        raise _refuse(Category.BAD_VALUE, parameter.name, f"The value of {parameter.name} has more than one bar.")
    if not any(parts):
        raise _empty(parameter)
    return parts


def _codes(parameter: Parameter) -> dict[str, str]:
    """Return R4's code for each that STU3 calls differently; rows of a code are named as its element is."""
    differing = CODES.get(parameter.rows)
    return differing.turns(Direction.TO_R4) if differing else {}


def _empty(parameter: Parameter) -> RefusedError:
    return _refuse(Category.BAD_VALUE, parameter.name, f"The search parameter {parameter.name} has no value.")


def _refuse(category: Category, name: str, diagnostics: str) -> RefusedError:
    return refuse(category, diagnostics, location=f"http.{repeatable(name)}")
