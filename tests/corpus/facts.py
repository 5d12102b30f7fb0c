"""Facts of resources, put so that two converters' words for the same fact are equal: texts trimmed, instants in UTC."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

Json = dict[str, Any]


class Fact(NamedTuple):
    """One fact: its kind (`Patient.name`) and what it says."""

    kind: str
    says: tuple[str, ...]


def _patient(body: Json) -> Iterator[Fact]:
    for identifier in body.get("identifier", ()):
        yield Fact("Patient.identifier", (_text(identifier.get("value")),))
    for one in body.get("name", ()):
        yield Fact("Patient.name", (_text(one.get("family")), *map(_text, one.get("given", ()))))
    yield Fact("Patient.birthDate", (_text(body.get("birthDate"))[:10],))
    yield Fact("Patient.gender", (_text(body.get("gender")),))
    for address in body.get("address", ()):
        parts = (address.get(name) for name in ("city", "district", "state", "postalCode", "country", "use"))
        yield Fact("Patient.address", (*map(_text, address.get("line", ())), *map(_text, parts)))
    for one in body.get("telecom", ()):
        yield Fact("Patient.telecom", (_text(one.get("value")), _text(one.get("use")) if one.get("value") else ""))
    yield Fact("Patient.maritalStatus", codes(body.get("maritalStatus")))
    yield Fact("Patient.deceased", (_text(body.get("deceasedBoolean")) or instant(body.get("deceasedDateTime")),))


def facts(body: Json) -> frozenset[Fact]:
    """Return the facts of a resource; none of types that are not compared."""
    tell = TELLERS.get(body["resourceType"])
    return frozenset(fact for fact in tell(body) if any(fact.says)) if tell else frozenset()


def _encounter(body: Json) -> Iterator[Fact]:
    yield Fact("Encounter.class", (_text((body.get("class") or {}).get("code")),))
    yield Fact("Encounter.status", (_text(body.get("status")),))
    period = body.get("period") or {}
    yield Fact("Encounter.period.start", (instant(period.get("start")),))
    yield Fact("Encounter.period.end", (instant(period.get("end")),))
    for identifier in body.get("identifier", ()):
        yield Fact("Encounter.identifier", (_text(identifier.get("value")),))
    for one in body.get("location", ()):
        place = _text(one["location"].get("display"))
        yield Fact("Encounter.location", (place, _text(one.get("status"))) if place else ())


def located(body: Json, names: Mapping[str, str]) -> Json:
    """Return an encounter whose places are shown by their names, as a reference has them; any other body as it is."""
    places = body.get("location") if body["resourceType"] == "Encounter" else None
    if not places:
        return body
    named = [{**one, "location": {"display": names.get(one["location"].get("reference", ""))}} for one in places]
    return {**body, "location": named}


def _coverage(body: Json) -> Iterator[Fact]:
    period = body.get("period") or {}
    plans = [one.get("value") for one in body.get("class", ()) if "plan" in codes(one.get("type"))]
    plan = _text(plans[0]) if plans else ""
    yield Fact("Coverage.plan", (plan,))
    for name, says in (
        ("status", _text(body.get("status"))),
        ("period", f"{_text(period.get('start'))}/{_text(period.get('end'))}"),
        ("type", " ".join(codes(body.get("type")))),
        ("subscriberId", _text(body.get("subscriberId"))),
        ("relationship", " ".join(codes(body.get("relationship")))),
        (
            "group",
            " ".join(_text(one.get("value")) for one in body.get("class", ()) if "group" in codes(one.get("type"))),
        ),
    ):
        yield Fact(f"Coverage.{name}", (plan, says) if says.strip("/") else ())
    for payor in body.get("payor", ()):
        yield Fact("Coverage.payor", (plan, _text(payor.get("display"))) if payor.get("display") else ())


def _allergy(body: Json) -> Iterator[Fact]:
    name = " ".join(codes(body.get("code"))) or _text((body.get("code") or {}).get("text"))
    yield Fact("AllergyIntolerance.code", (name,))
    yield Fact("AllergyIntolerance.clinicalStatus", (name, *codes(body.get("clinicalStatus"))))
    yield Fact("AllergyIntolerance.category", (name, *body["category"]) if body.get("category") else ())
    yield Fact("AllergyIntolerance.criticality", (name, body["criticality"]) if body.get("criticality") else ())
    for one in body.get("reaction", ()):
        shown = sorted(_text(said.get("text")) for said in one.get("manifestation", ()))
        yield Fact("AllergyIntolerance.manifestation", (name, *shown))
        yield Fact("AllergyIntolerance.severity", (name, one["severity"].lower()) if one.get("severity") else ())


def _condition(body: Json) -> Iterator[Fact]:
    name = " ".join(codes(body.get("code")))
    yield Fact("Condition.code", (name,))
    yield Fact("Condition.text", (name, _text((body.get("code") or {}).get("text"))) if name else ())
    yield Fact("Condition.onset", (name, instant(body["onsetDateTime"])) if body.get("onsetDateTime") else ())
    yield Fact(
        "Condition.verificationStatus",
        (name, *codes(body.get("verificationStatus"))) if body.get("verificationStatus") else (),
    )


TELLERS: Final = {
    "Patient": _patient,
    "Encounter": _encounter,
    "Coverage": _coverage,
    "AllergyIntolerance": _allergy,
    "Condition": _condition,
}


def codes(concept: Any) -> tuple[str, ...]:
    """Return the codes of a CodeableConcept, or its text where it has none."""
    concept = concept or {}
    found = tuple(sorted({_text(coding.get("code")) for coding in concept.get("coding", ())} - {""}))
    return found or ((_text(concept.get("text")),) if concept.get("text") else ())


def instant(value: Any) -> str:
    """Return a dateTime as the instant it stands for; one without a time of day as it is."""
    text = _text(value)
    return datetime.fromisoformat(text).astimezone(UTC).isoformat() if "T" in text else text


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value).strip()
