"""The authorities of numbers in messages, of patients, visits, accounts, providers and orders, as a channel's lines."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from engine.config.channel import UNDECIDED
from engine.config.source import DECIDE
from engine.mapping.authoring.draft_text import ALSO, IDENTITY, MAPPINGS, MOST, RESULTS, quoted
from engine.mapping.authoring.feed import PROVIDERS, FeedSurvey, SeenAuthority, is_shown, ranked
from engine.mapping.compile import MappingSource
from engine.mapping.files.reference import segments
from engine.mapping.language.identifier import universal_uri

PLACEHOLDER: Final = f"{UNDECIDED}authority:"
LONGEST_NAME: Final = 200
PROVIDER: Final = "PRN"
# Fields of numbers that are not a patient's, and the type that the engine takes where the message says none.
OTHERS: Final = {"PV1-19": "VN", "PV1-5": "VN", "PV1-50": "VN", "PID-18": "AN", "MRG-3": "AN", "MRG-5": "VN"}
ORDERS: Final = {"OBR-2": "PLAC", "ORC-2": "PLAC", "OBR-3": "FILL", "ORC-3": "FILL"}
# A URI that needs no quotes in YAML.
_URI_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9/][A-Za-z0-9/._~%:-]*[A-Za-z0-9/]")

Seen = Counter[SeenAuthority]


class NumbersOfType(NamedTuple):
    """An authority with a type of numbers that gets a system of its own, such as visits (`VN`)."""

    authority: str
    type_: str

    @property
    def key(self) -> str:
        """The key of a channel's authorities, `RVB^VN`."""
        return f"{self.authority}^{self.type_}"


def authorities_of(feed: FeedSurvey, source: MappingSource) -> dict[str, tuple[str, str]]:
    """Return the authorities of numbers, by the channel's names: the system of each, and the evidence.

    Those whose numbers are all of types that have a system of their own in the mapping (SS) need none.
    """
    systems = _identity(source).get("systems") or {}
    found: dict[str, Seen] = {}
    for one, count in feed.authorities.items():
        key = one.namespace or one.universal
        named = _names_numbers(one.field) and _is_authority(key) and (key or one.field == IDENTITY)
        if named and one.type_ not in systems:
            found.setdefault(key, Counter())[one] += count
    named_most = sorted(found.items(), key=lambda item: (-item[1].total(), item[0]))
    apart = {id_ for numbers in own_systems(feed, source).items() for id_ in _own_universals(*numbers)}
    return {key: _numbered(key, counts, apart) for key, counts in named_most[:MOST]}


def own_systems(feed: FeedSurvey, source: MappingSource) -> dict[NumbersOfType, Seen]:
    """Return the numbers of types that get a system beside their authority's, with the evidence.

    Those that name no authority are of the sending facility (MSH-4), where there is one.
    """
    identity = _identity(source)
    systems, others = identity.get("systems") or {}, set(identity.get("not_identity") or ())
    facilities = {facility for _, facility in feed.senders}
    facility = facilities.pop() if len(facilities) == 1 else ""
    found: dict[NumbersOfType, Seen] = {}
    for one, count in feed.authorities.items():
        type_ = one.type_ or _type_of(one.field, source)
        if not _is_own(one.field, type_, others, source) or type_ in systems or not is_shown(type_) or not type_:
            continue
        patients = one.field in {IDENTITY, *ALSO}
        key = one.namespace or one.universal or ("" if patients else facility)
        if key and _is_authority(key) and _is_authority(type_):
            found.setdefault(NumbersOfType(key, type_), Counter())[one] += count
    ordered = sorted(found.items(), key=lambda item: (-item[1].total(), item[0]))
    return dict(ordered[:MOST])


def authority_lines(feed: FeedSurvey, source: MappingSource) -> Iterator[str]:
    """Yield the lines of `authorities`: each with its evidence, those of a type of numbers as proposals."""
    named, own = authorities_of(feed, source), own_systems(feed, source)
    lines = [f"  {quoted(key)}: {system}   # {why}" for key, (system, why) in named.items()]
    for numbers, counts in own.items():
        lines.append(_own_line(numbers, counts, named.get(numbers.authority, ("", ""))[0]))
    if any(not line.lstrip().startswith("#") for line in lines):
        yield "authorities:"
    elif lines:
        yield "# authorities:"
        lines = [f"# {line.replace('# ', '', 1)}" for line in lines]
    yield from lines


def _own_line(numbers: NumbersOfType, counts: Seen, system: str) -> str:
    """Return the line of a type of numbers: a system where its universal id is another one, else a proposal."""
    key, evidence = quoted(numbers.key), evidence_of(counts)
    own = next(filter(None, map(_system, _universals(counts))), "")
    if own and own != system:
        return f"  {key}: {own}   # as its universal id says; {evidence}"
    made = "its system" if system else "a system of the engine's own"
    why = f"the URI of these {numbers.type_} numbers, if they have one; else {made} with #{numbers.type_}"
    return f"  # {key}: {PLACEHOLDER}{_named(numbers.key)}   # {DECIDE} {why}; {evidence}"


def evidence_of(counts: Seen) -> str:
    """Return the fields of an authority, with the types of its numbers."""
    fields: dict[str, Counter[str]] = {}
    for one, count in counts.items():
        fields.setdefault(one.field, Counter())[one.type_ or "without a type"] += count
    return "; ".join(f"{path} {ranked(types)}" for path, types in sorted(fields.items()))


def _identity(source: MappingSource) -> dict[str, Any]:
    return dict(source.documents.events.value.get("identity") or {})


def _type_of(path: str, source: MappingSource) -> str:
    """Return the type that the engine takes for a number without one; empty for a patient's."""
    if source.name == MAPPINGS[RESULTS] and path in ORDERS:
        return ORDERS[path]
    return OTHERS.get(path) or (PROVIDER if _is_of_provider(path) else "")


def _is_own(path: str, type_: str, others: set[str], source: MappingSource) -> bool:
    """True if numbers of a field and type have a system beside their authority's."""
    return bool(_type_of(path, source)) or ((path in {IDENTITY, *ALSO} or path.startswith("MRG-")) and type_ in others)


def _names_numbers(path: str) -> bool:
    return path in {IDENTITY, *ALSO} or path.startswith("MRG-") or path in OTHERS or _is_of_provider(path)


def _is_of_provider(path: str) -> bool:
    segment, _, number = path.partition("-")
    if number.isdecimal() and (segment, int(number)) in PROVIDERS:
        return True
    field = segments().get(segment, {}).get(int(number) if number.isdecimal() else 0)
    return field is not None and field.type_ == "XCN"


def _is_authority(key: str) -> bool:
    return is_shown(key) and key == key.strip() and not any(mark in key for mark in "&~|^")


def _own_universals(numbers: NumbersOfType, counts: Seen) -> Iterator[tuple[str, str]]:
    """Yield the universal ids of a type of numbers, with the authority."""
    yield from ((numbers.authority, one) for one in _universals(counts))


def _numbered(key: str, counts: Seen, apart: Collection[tuple[str, str]]) -> tuple[str, str]:
    """Return the system of an authority, or a placeholder if its universal id makes none; and the evidence.

    `apart`: the universal ids of types of numbers with a line of their own, which count where there is no other.
    """
    universals = [one for one in _universals(counts) if (key, one) not in apart] or _universals(counts)
    system = next(filter(None, map(_system, universals)), "")
    if not system:
        return PLACEHOLDER + _named(key), f"{DECIDE} the URI of these numbers; {evidence_of(counts)}"
    doubt = f"{DECIDE} it comes with {len(universals)} universal ids; " if len(universals) > 1 else ""
    return system, f"{doubt}as its universal id says; {evidence_of(counts)}"


def _universals(counts: Seen) -> list[str]:
    return list(dict.fromkeys(one.universal for one, _ in counts.most_common() if one.universal))


def _named(key: str) -> str:
    name = quote(key, safe="^") or "empty"
    return name if len(name) <= LONGEST_NAME else sha256(key.encode()).hexdigest()


def _system(universal: str) -> str:
    """Return the system made of a universal id; empty if there is none."""
    made = next((uri for kind in ("ISO", "UUID", "URI") if (uri := universal_uri(universal, kind))), "")
    return made if _URI_PLAIN.fullmatch(made) else ""
