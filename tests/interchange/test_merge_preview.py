"""The preview of a merge for whatever Patients there are: valid in both versions, silent on what is equal."""

from collections.abc import Iterator
from typing import Any

import pytest
from fhir.resources.R4B import get_fhir_model_class as r4_model
from fhir.resources.STU3 import get_fhir_model_class as stu3_model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, defects
from engine.interchange.rest.merge import preview
from tests.interchange.kit import SYSTEM, Running, merge_body, patient
from tests.tiers import trials

Json = Any

MODELS = {FhirVersion.R4: r4_model, FhirVersion.STU3: stu3_model}

word = st.sampled_from(["a", "b", "Zoë", "O'Neil", "李"])
date = st.sampled_from(["1984", "1984-02", "1984-02-29"])
moment = st.sampled_from(["2020", "2020-01-01T10:00:00Z"])
concept = st.fixed_dictionaries(
    {}, optional={"text": word, "coding": st.lists(st.fixed_dictionaries({"code": word}), min_size=1)}
).filter(bool)
period = st.fixed_dictionaries({}, optional={"start": moment, "end": moment}).filter(bool)
inner = st.one_of(
    st.fixed_dictionaries({"url": st.just("text"), "valueString": word}),
    st.fixed_dictionaries({"url": st.just("flag"), "valueBoolean": st.booleans()}),
    st.fixed_dictionaries({"url": st.just("concept"), "valueCodeableConcept": concept}),
)
extension = st.one_of(inner, st.fixed_dictionaries({"url": st.just("urn:x"), "extension": st.lists(inner, min_size=1)}))
extensions = st.lists(extension, min_size=1, max_size=2)
companion = st.fixed_dictionaries({}, optional={"id": st.just("c"), "extension": extensions}).filter(bool)
name = st.fixed_dictionaries(
    {},
    optional={
        "use": st.sampled_from(["official", "old"]),
        "family": word,
        "_family": companion,
        "given": st.lists(word, min_size=1, max_size=3),
        "suffix": st.lists(word, min_size=1),
        "period": period,
        "extension": extensions,
    },
).filter(bool)
telecom = st.fixed_dictionaries({"value": word}, optional={"rank": st.integers(1, 3), "period": period})
address = st.fixed_dictionaries({}, optional={"line": st.lists(word, min_size=1), "city": word}).filter(bool)
contact = st.fixed_dictionaries(
    {},
    optional={
        "relationship": st.lists(concept, min_size=1),
        "name": name,
        "telecom": st.lists(telecom, min_size=1),
        "address": address,
        "gender": st.sampled_from(["male", "female"]),
        "_gender": companion,
        "period": period,
        "organization": st.just({"display": "A"}),
        "extension": extensions,
        "modifierExtension": extensions,
    },
).filter(bool)
communication = st.fixed_dictionaries({"language": concept}, optional={"preferred": st.booleans()})
link = st.fixed_dictionaries({"other": st.just({"reference": "Patient/x"}), "type": st.just("seealso")})
identifier = st.fixed_dictionaries(
    {"system": st.sampled_from([SYSTEM, "urn:a"]), "value": word}, optional={"type": concept}
)
patients = st.fixed_dictionaries(
    {"resourceType": st.just("Patient")},
    optional={
        "active": st.booleans(),
        "birthDate": date,
        "_birthDate": companion,
        "gender": st.sampled_from(["male", "female"]),
        "deceasedDateTime": moment,
        "multipleBirthInteger": st.integers(1, 3),
        "maritalStatus": concept,
        "managingOrganization": st.fixed_dictionaries({"display": word}),
        "identifier": st.lists(identifier, min_size=1, max_size=3),
        "name": st.lists(name, min_size=1, max_size=3),
        "telecom": st.lists(telecom, min_size=1, max_size=2),
        "address": st.lists(address, min_size=1, max_size=2),
        "contact": st.lists(contact, min_size=1, max_size=2),
        "communication": st.lists(communication, min_size=1, max_size=2),
        "link": st.lists(link, min_size=1, max_size=1),
        "photo": st.lists(st.fixed_dictionaries({"title": word}), min_size=1, max_size=2),
        "extension": extensions,
        "modifierExtension": extensions,
        "language": st.sampled_from(["en", "es"]),
    },
)


def parts(items: list[Json]) -> Iterator[Json]:
    """Yield parameters and their parts, however deep."""
    for item in items:
        yield item
        yield from parts(item.get("part", []))


@pytest.mark.property
@pytest.mark.parametrize("version", FhirVersion)
@settings(max_examples=trials(150), deadline=None)
@given(source=patients, target=patients)
def test_every_preview_is_valid(version: FhirVersion, source: Json, target: Json) -> None:
    """C-291, C-266: each item has a name and exactly one value or parts; nothing is told of what is equal."""
    assert preview(source, source, SYSTEM) == []
    assert preview({"resourceType": "Patient"}, target, SYSTEM) == []
    told = preview(source, target, SYSTEM)
    if not told:
        return
    parameters = {"resourceType": "Parameters", "parameter": told}
    assert defects(parameters, version) == ()
    MODELS[version]("Parameters").model_validate(parameters)
    for item in parts(told):
        values = [key for key in item if key.startswith("value")]
        assert item["name"]
        assert len(values) + ("part" in item) == 1
        assert item.keys() == {"name", *values, *(["part"] if "part" in item else [])}
    for item in told:
        assert [part["name"] for part in item["part"]] in (["sourceValue"], ["targetValue", "sourceValue"])
        assert item["name"].startswith("Patient.")
        assert "_" not in item["name"]
    assert len({item["name"] for item in told}) == len(told)


def test_what_stands_beside_a_value(service: Running, base: str) -> None:
    """C-264: an extension of a simple element is told as well, for it would be lost as well."""
    birth_time = {
        "url": "http://hl7.org/fhir/StructureDefinition/patient-birthTime",
        "valueDateTime": "1984-02-29T08:00:00Z",
    }
    source = service.create(base, _birthDate={"extension": [birth_time]})
    target = service.create(base)
    order = merge_body(source["id"], target["id"], preview=True)
    answer = service.ask("POST", f"{base}/Patient/$merge", json=order).json()
    told = {one["name"]: one["part"] for one in answer["parameter"]}
    assert told["Patient.birthDate.extension[0]"] == [
        {"name": "sourceValue", "valueDateTime": birth_time["valueDateTime"]}
    ]
    assert patient()["birthDate"] == source["birthDate"]
