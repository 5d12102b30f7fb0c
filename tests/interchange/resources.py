"""Resources made of HL7's definitions alone: any element may be there, nothing is likely, all is valid."""

from typing import Any, Final

from hypothesis import strategies as st

from engine.fhir.schema import BINDINGS, REQUIRED_CHOICES, ElementDefinition, FhirVersion, definitions
from engine.fhir.versions.direction import stem

DEEPEST: Final = 4
TEXTS: Final = ("a", "two words", "Ångström")
PRIMITIVES: Final[dict[str, tuple[Any, ...]]] = {
    "base64Binary": ("AAAA",),
    "boolean": (True, False),
    "canonical": ("http://example.org/Questionnaire/1",),
    "code": ("a-code",),
    "date": ("2024-02-29", "1984"),
    "dateTime": ("2024-02-29T10:11:12+01:00", "1984-02"),
    "decimal": (1, 2.5),
    "id": ("one", "two.2"),
    "instant": ("2024-02-29T10:11:12.123Z",),
    "integer": (-1, 0, 7),
    "markdown": TEXTS,
    "oid": ("urn:oid:1.2.3",),
    "positiveInt": (1, 9),
    "string": TEXTS,
    "time": ("10:11:12",),
    "unsignedInt": (0, 9),
    "uri": ("http://example.org/a", "urn:uuid:53fefa32-fcbb-4ff8-8a92-55ee120877b7"),
    "url": ("http://example.org/b",),
    "uuid": ("urn:uuid:53fefa32-fcbb-4ff8-8a92-55ee120877b7",),
    "xhtml": ('<div xmlns="http://www.w3.org/1999/xhtml">a</div>',),
}
BESIDE: Final = {"extension": [{"url": "http://example.org/beside", "valueString": "b"}]}
# Required by FHIR, not by its schemas: always there.
ALWAYS: Final = frozenset(
    {
        ("Annotation", "text"),
        ("Coverage_CostToBeneficiary", "value"),
        ("Extension", "url"),
        ("Immunization_ProtocolApplied", "doseNumber"),
        ("MedicationRequest_Substitution", "allowed"),
        ("Narrative", "div"),
        ("Narrative", "status"),
        ("SampledData", "data"),
        ("SampledData", "dimensions"),
        ("SampledData", "period"),
    }
)


@st.composite
def resources(draw: st.DrawFn, type_name: str, version: FhirVersion) -> dict[str, Any]:
    """Draw a resource of a type; contained resources are left out."""
    return {"resourceType": type_name, **_part(draw, type_name, version, DEEPEST)}


def _part(draw: st.DrawFn, type_name: str, version: FhirVersion, depth: int) -> dict[str, Any]:
    bound = BINDINGS[version][0].get(type_name, {})
    elements = {
        name: one._replace(codes=bound.get(name, one.codes))
        for name, one in definitions(version)[type_name].items()
        if one.type != "ResourceList"
    }
    groups: dict[str, list[str]] = {}
    for name in elements:
        groups.setdefault(stem(elements, name), []).append(name)
    wanted = draw(st.sets(st.sampled_from(sorted(groups)), min_size=1, max_size=6 if depth == DEEPEST else 2))
    made: dict[str, Any] = {}
    for group in sorted(groups):
        name = draw(st.sampled_from(groups[group]))
        must = (type_name, group) in ALWAYS or group in REQUIRED_CHOICES[version].get(type_name, ())
        simple = elements[name].type[0].islower()
        if elements[name].required or must or (group in wanted and (depth > 0 or simple)):
            made[name] = _value(draw, elements[name], version, depth - 1)
            if simple and elements[name].many:
                _pad(draw, name, made)
    if type_name == "Extension":
        made.pop("extension" if len(made) > 2 else "", None)
    return made if made.keys() - {"id"} else {**made, "extension": [{"url": "http://example.org/x", "valueInteger": 1}]}


def _pad(draw: st.DrawFn, name: str, made: dict[str, Any]) -> None:
    """Let something stand beside some values of a list of primitives, or in their place; nulls keep the places."""
    beside = [draw(st.sampled_from((None, None, BESIDE))) for _ in made[name]]
    if any(beside):
        made[f"_{name}"] = beside
        made[name] = [
            None if other and draw(st.booleans()) else one for one, other in zip(made[name], beside, strict=True)
        ]
        if not any(one is not None for one in made[name]):
            del made[name]


def _value(draw: st.DrawFn, element: ElementDefinition, version: FhirVersion, depth: int) -> Any:
    if element.codes is not None:
        one = st.sampled_from(sorted(element.codes))
    elif element.type in PRIMITIVES:
        one = st.sampled_from(PRIMITIVES[element.type])
    else:
        part = _part(draw, element.type, version, depth)
        return [part] if element.many else part
    return draw(st.lists(one, min_size=1, max_size=2)) if element.many else draw(one)
