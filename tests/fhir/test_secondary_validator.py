import subprocess
import sys
from copy import deepcopy
from typing import Any, get_args

import pytest

from engine.fhir.extra_constraints import DefectKind
from engine.fhir.schema import FhirVersion, definitions
from engine.fhir.secondary_validator import MODELS, second_opinion
from engine.interchange.rest.resource.catalogue import KEPT

SECRET = "Quintero"
# What R4B has and R4 has not: two types of an extension's value, and one of what a definition is for.
BEYOND_R4 = {
    ("ActivityDefinition", "subjectCanonical"),
    ("Extension", "valueCodeableReference"),
    ("Extension", "valueRatioRange"),
}
# What HL7's schema of R4 gives to parts of data types, which FHIR itself gives to backbone elements alone.
TOO_MUCH = "modifierExtension"


@pytest.mark.parametrize("name", sorted(KEPT))
def test_r4b_has_the_elements_of_r4(name: str) -> None:
    """Of each kept type, and of all it is made of, names and lists are R4's own, so that R4B's models do."""
    types, model_of = definitions(FhirVersion.R4), MODELS[FhirVersion.R4]
    waiting, done, differing = [(name, name)], set(), set()
    while waiting:
        type_name, model = waiting.pop()
        if type_name in done:
            continue
        done.add(type_name)
        fields = {
            field.alias or key: str(field.annotation)
            for key, field in model_of(model).model_fields.items()
            if not (field.alias or key).startswith("_") and key not in {"resource_type", "fhir_comments"}
        }
        elements = types[type_name]
        differing |= {(type_name, one) for one in elements.keys() ^ fields.keys() if one != TOO_MUCH}
        for one in elements.keys() & fields.keys():
            assert elements[one].many == ("List" in fields[one]), (type_name, one)
            if types.get(elements[one].type) and elements[one].type != "ResourceList":
                waiting.append((elements[one].type, _model(model_of(model), one)))
    assert differing <= BEYOND_R4


def _model(holder: Any, alias: str) -> str:
    """Return the name of the model that a field holds, one or a list of it."""
    annotation = next(field.annotation for key, field in holder.model_fields.items() if (field.alias or key) == alias)
    while inner := [one for one in get_args(annotation) if one is not type(None)]:
        annotation = inner[0]
    return str(annotation.__name__).removesuffix("Type")


def test_a_valid_resource_has_no_fault_and_stays_as_it_is() -> None:
    """Nothing is found in a valid resource of either version, and nothing in it is changed."""
    patient = {"resourceType": "Patient", "name": [{"family": SECRET, "given": ["A"]}], "birthDate": "2020"}
    before = deepcopy(patient)
    assert [second_opinion(patient, version) for version in FhirVersion] == [(), ()]
    assert patient == before


@pytest.mark.parametrize(
    ("part", "path", "kind"),
    [
        pytest.param({"birthDate": SECRET}, "Patient.birthDate", DefectKind.VALUE, id="value"),
        pytest.param({"link": [{"type": "refer"}]}, "Patient.link[0].other", DefectKind.REQUIRED, id="required"),
        pytest.param({"name": [{"familyy": SECRET}]}, "Patient.name[0].familyy", DefectKind.STRUCTURE, id="element"),
        pytest.param({"name": [5]}, "Patient.name[0]", DefectKind.STRUCTURE, id="shape"),
        pytest.param({f"{SECRET} X": 1}, "Patient", DefectKind.STRUCTURE, id="no name of an element"),
    ],
)
def test_a_fault_names_element_and_text_and_no_value(part: dict[str, Any], path: str, kind: DefectKind) -> None:
    """A finding says where in the resource and what is wrong; what stands there is not repeated."""
    (found,) = second_opinion({"resourceType": "Patient", **part}, FhirVersion.R4)
    assert (found.path, found.kind) == (path, kind)
    assert SECRET not in str(found)


def test_a_type_without_a_model_has_no_second_opinion() -> None:
    """R4B dropped some types of R4; a contained type that no version knows is told by the schema."""
    assert second_opinion({"resourceType": "SubstanceProtein"}, FhirVersion.R4) == ()
    holder = {"resourceType": "Patient", "contained": [{"resourceType": "Nothing"}]}
    assert second_opinion(holder, FhirVersion.R4) == ()


@pytest.mark.parametrize(
    "module",
    ["engine.ops.cli.run", "engine.interchange.app.commands.administration", "engine.ops.cli.mapping.mappings"],
)
def test_who_runs_long_does_not_import_the_models(module: str) -> None:
    """fhir.resources takes a second and 25 MB: the engine, the service and `mappings check` start without it."""
    code = f"import sys, {module}; assert not [name for name in sys.modules if name.startswith('fhir.resources')]"
    subprocess.run([sys.executable, "-c", code], check=True)
