"""What a Patient must be to be kept: required elements, identifiers, valid values, references that resolve."""

from collections.abc import Iterator

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.kernel.outcome import Category, Issue, RefusedError
from engine.interchange.rest.resource.rules import check_shape, issues


def check_patient(patient: JsonObject, version: FhirVersion) -> RefusedError | None:
    """Raise the RefusedError of a malformed or incomplete body; return, not raise, that of a well-formed wrong one.

    The wrong one's turn comes after conflicts (409, 412), which only the store knows.
    """
    missing, wrong = check_shape(patient, "Patient", version)
    absent = (*_missing(patient), *issues(missing))
    if absent:
        raise RefusedError(Category.REQUIRED, absent)
    forged = tuple(_forged(patient))
    return wrong or (RefusedError(Category.RULE, forged) if forged else None)


def _forged(patient: JsonObject) -> Iterator[Issue]:
    """Yield the links by which a live record would say that another took its place: that only $merge says."""
    for index, link in enumerate(patient.get("link", [])):
        if link.get("type") == "replaced-by":
            text = "A patient is replaced by $merge only."
            yield Issue(text, f"Patient.link[{index}].type", "replaced-by")


def _missing(patient: JsonObject) -> Iterator[Issue]:
    names = patient.get("name", [])
    if not names:
        yield _required("Patient.name")
    else:
        if _blank(names[0].get("family")):
            yield _required("Patient.name[0].family")
        if all(map(_blank, names[0].get("given", []))):
            yield _required("Patient.name[0].given")
    for element in ("gender", "birthDate"):
        if not patient.get(element):
            yield _required(f"Patient.{element}")
    for index, identifier in enumerate(patient.get("identifier", [])):
        for part in ("system", "value"):
            if _blank(identifier.get(part)):
                yield Issue(
                    "An identifier needs a system and a value.", f"Patient.identifier[{index}].{part}", "missing-field"
                )


def _blank(text: str | None) -> bool:
    """Say whether there is nothing but blanks: by such a name or number nobody would be found."""
    return text is None or not text.strip()


def _required(path: str) -> Issue:
    return Issue(f"{path} is required to register a patient.", path, "missing-field")
