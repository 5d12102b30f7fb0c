"""Facts of a Patient resource: its identifiers, its links to merged records, and the person's name."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from engine.fhir.plan import ElementChange, Identity, PatientRecord

Body = dict[str, Any]

# Identifier types (table 0203) that do not register a person.
NO_REGISTRATION: Final = frozenset({"SS", "DL", "PPN", "AN", "VN", "SN", "MA", "MC"})
PLACEHOLDER_NAMES: Final = ("BABY", "NEWBORN", "UNKNOWN", "UNK", "DOE", "TRAUMA")
PLACEHOLDER_DATES: Final = frozenset({"1900-01-01", "1800-01-01", "9999-12-31"})


@dataclass(frozen=True, slots=True, repr=False)
class PersonName:
    """The person of a record: all family and given names in lower case, the first ones also as written."""

    family: str
    given: str
    gender: str
    birth_date: str
    families: frozenset[str]
    givens: frozenset[str]

    @property
    def complete(self) -> bool:
        """True if family, given, gender and a full birth date are present."""
        return bool(self.family and self.given and self.gender and len(self.birth_date) == 10)

    @property
    def placeholder(self) -> bool:
        """True if a name or the birth date is a stand-in."""
        names = {*self.families, *self.givens}
        return self.birth_date in PLACEHOLDER_DATES or any(
            name.upper() == word or name.upper().startswith(f"{word} ") or (word == "BABY" and name.upper()[:4] == word)
            for name in names
            for word in PLACEHOLDER_NAMES
        )

    def equals(self, other: "PersonName") -> bool:
        """True if family, first given, gender and birth date are the same, ignoring case."""
        return self.key() == other.key()

    def key(self) -> tuple[str, str, str, str]:
        """Return family, first given, gender and birth date as they are compared."""
        return self.family.casefold(), self.given.casefold(), self.gender, self.birth_date


def person(body: Body) -> PersonName:
    """Return the person of a Patient resource."""
    names = [name for name in _list(body, "name") if isinstance(name, dict)]
    first = next((name for name in names if name.get("use") != "old"), {})
    return PersonName(
        _text(first.get("family")).strip(),
        _text(next(iter(_list(first, "given")), "")).strip(),
        _text(body.get("gender")),
        _text(body.get("birthDate")),
        frozenset(_text(name.get("family")).strip().casefold() for name in names) - {""},
        frozenset(_text(given).strip().casefold() for name in names for given in _list(name, "given")) - {""},
    )


def person_of(record: PatientRecord) -> PersonName:
    """Return the patient's person as a message gives it; empty where it does not."""
    return person(_elements(record.changes))


def overlays(record: PatientRecord, body: Body) -> bool:
    """True if a message and the record found for it describe different persons, as `another_person` judges."""
    known = body.get("birthDate")
    stated = next((change.items for change in record.changes if change.element == "birthDate"), ())
    if record.placeholder or not stated or not known or stated[0] == known:
        return False
    return another_person(person_of(record), person(body))


def another_person(one: PersonName, other: PersonName) -> bool:
    """True if birth dates differ and no family or given name agrees, with no stand-in among them.

    False where either side lacks a birth date or a name.
    """
    if one.placeholder or other.placeholder or not (one.birth_date and other.birth_date):
        return False
    length = min(len(one.birth_date), len(other.birth_date))
    if one.birth_date[:length] == other.birth_date[:length]:
        return False
    mine, theirs = one.families | one.givens, other.families | other.givens
    return bool(mine and theirs) and not (one.families & other.families or one.givens & other.givens)


def carries(body: Body, identity: Identity) -> str:
    """Return `current`, `old` or the empty string: how a record carries an identifier."""
    found = ""
    for item in _list(body, "identifier"):
        if isinstance(item, dict) and item.get("value") == identity.value and item.get("system") == identity.system:
            if item.get("use") != "old":
                return "current"
            found = "old"
    return found


def carries_any(body: Body, identities: Iterable[Identity]) -> bool:
    """True if a record carries one of the identifiers, current or old."""
    return any(carries(body, identity) for identity in identities)


def bears_current(body: Body, identities: Iterable[Identity]) -> bool:
    """True if a record carries one of the identifiers as a current one."""
    return any(carries(body, identity) == "current" for identity in identities)


def current_numbers(body: Body) -> tuple[Identity, ...]:
    """Return the current identifiers by which a record is registered; the server's own id is not among them."""
    return tuple(
        number_of(item)
        for item in _list(body, "identifier")
        if isinstance(item, dict)
        and item.get("use") != "old"
        and _text(item.get("value")) not in {"", body.get("id")}
        and not NO_REGISTRATION & _types(item)
    )


def number_of(item: Any) -> Identity:
    """Return system and value of an Identifier; empty where it has none, or is not an object."""
    identifier = item if isinstance(item, dict) else {}
    return Identity(_text(identifier.get("system")), _text(identifier.get("value")))


def died(body: Body) -> bool:
    """True if a Patient has died, with or without a time."""
    return body.get("deceasedBoolean") is True or bool(body.get("deceasedDateTime"))


def links(body: Body, kind: str) -> tuple[str, ...]:
    """Return the logical ids of the Patients linked with a type: `replaces`, `replaced-by`."""
    found = []
    for link in _list(body, "link"):
        if isinstance(link, dict) and link.get("type") == kind and isinstance(link.get("other"), dict):
            reference = _text(link["other"].get("reference"))
            if "Patient/" in reference:
                found.append(reference.split("Patient/", 1)[1].split("/", 1)[0])
    return tuple(found)


def replaced_by(body: Body) -> str:
    """Return the logical id of the record that replaced this one, or the empty string."""
    return next(iter(links(body, "replaced-by")), "")


def seen_also(body: Body, logical_id: str) -> Body:
    """Return a record with a `seealso` link to another one; itself if it already has it."""
    if logical_id in links(body, "seealso"):
        return body
    link = {"other": {"reference": f"Patient/{logical_id}"}, "type": "seealso"}
    return body | {"link": [*_list(body, "link"), link]}


def parted(body: Body, logical_id: str) -> Body:
    """Return a record without its `seealso` link to another one; itself if it has none."""
    if logical_id not in links(body, "seealso"):
        return body
    kept = [link for link in _list(body, "link") if logical_id not in links({"link": [link]}, "seealso")]
    rest = {name: value for name, value in body.items() if name != "link"}
    return rest | {"link": kept} if kept else rest


def _elements(changes: Iterable[ElementChange]) -> Body:
    body: Body = {}
    for change in changes:
        if not change.items:
            continue
        if change.many:
            body[change.element] = [*body.get(change.element, ()), *change.items]
        else:
            body[change.element] = change.items[0]
    return body


def _types(identifier: Body) -> frozenset[str]:
    kind = identifier.get("type")
    codings = _list(kind, "coding") if isinstance(kind, dict) else []
    return frozenset(_text(coding.get("code")) for coding in codings if isinstance(coding, dict))


def _list(body: Body, name: str) -> list[Any]:
    value = body.get(name)
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
