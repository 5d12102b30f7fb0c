"""The segments about the patient: PID, PV1, and who pays (IN1, GT1)."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.orders.laboratory.message.datatypes import (
    NPI,
    SEXES,
    addresses,
    ce,
    components,
    cx,
    leaf,
    moment,
    repeated,
    row,
    telecoms,
    xon,
    xpn,
)
from engine.interchange.orders.laboratory.order import InsuranceCoverage, LaboratoryOrder

Resource = JsonObject

# Table 0004 by HL7 v3's ActCode.
CLASSES: Final = {"AMB": "O", "IMP": "I", "ACUTE": "I", "NONAC": "I", "EMER": "E", "PRENC": "P", "OBSENC": "O"}
# Table 0063 by the code of a relationship.
RELATIONSHIPS: Final = {
    "self": "SEL",
    "spouse": "SPO",
    "child": "CHD",
    "parent": "PAR",
    "common": "DOM",
    "other": "OTH",
    "injured": "OTH",
    "SPS": "SPO",
    "WIFE": "SPO",
    "HUSB": "SPO",
    "CHILD": "CHD",
    "SON": "CHD",
    "DAU": "CHD",
    "PRN": "PAR",
    "FTH": "FTH",
    "MTH": "MTH",
    "GUARD": "GRD",
}
SELF: Final = "SEL"


class Bill(NamedTuple):
    """The segments about payers, for a type of account."""

    guarantor: bool
    insurances: bool


# self: the patient pays alone; patient: the patient and the insurances; guarantor: another person and the insurances;
# thirdParty: the insurances. Without a type, everything known is sent.
BILLS: Final = {
    "self": Bill(guarantor=True, insurances=False),
    "patient": Bill(guarantor=True, insurances=True),
    "guarantor": Bill(guarantor=True, insurances=True),
    "thirdParty": Bill(guarantor=False, insurances=True),
    "": Bill(guarantor=False, insurances=True),
}


class Authorities(NamedTuple):
    """How systems of identifiers are called: by configuration, and the name of this service's own numbers."""

    by_system: dict[str, str]
    own: str

    def name(self, identifier: Resource) -> str:
        """Return the namespace of an identifier, '' where its system is used instead."""
        return self.by_system.get(identifier.get("system", ""), "")


def pid(order: LaboratoryOrder, authorities: Authorities) -> str:
    """Return PID; a patient without an external MRN is named by the service's own id."""
    patient = order.patient
    numbers = [cx(record_number, authorities.name(record_number), "MR") for record_number in order.record_numbers]
    own = cx({"value": patient["id"]}, authorities.own, "PI")
    return row(
        "PID",
        {
            1: "1",
            3: repeated(numbers or [own]),
            5: xpn(patient),
            7: moment(patient.get("birthDate")),
            8: SEXES.get(patient.get("gender", ""), ""),
            11: addresses(patient),
            13: telecoms(patient),
        },
    )


def pv1(order: LaboratoryOrder, authorities: Authorities) -> Iterator[str]:
    """Yield PV1 where the order belongs to a visit."""
    encounter = order.encounter
    if encounter is None:
        return
    number = next((identifier for identifier in encounter.get("identifier", ()) if "value" in identifier), None)
    visit = cx(number, authorities.name(number), "VN") if number else ""
    yield row("PV1", {1: "1", 2: CLASSES.get(encounter.get("class", {}).get("code", ""), "U"), 19: visit})


def payment(order: LaboratoryOrder, authorities: Authorities) -> Iterator[str]:
    """Yield IN1 for each insurance and GT1 for the guarantor, as the account says."""
    bill = BILLS[order.account_type]
    if bill.insurances:
        for number, coverage in enumerate(order.coverages, 1):
            yield _in1(order, coverage, number, authorities)
    if bill.guarantor or (order.guarantor is not None and order.account_type != "self"):
        pays_alone = order.account_type in {"self", "patient"}
        yield _gt1(order, order.patient if pays_alone else order.guarantor or order.patient, authorities)


def _in1(order: LaboratoryOrder, coverage: InsuranceCoverage, number: int, authorities: Authorities) -> str:
    resource, payor = coverage.resource, coverage.payor
    insured = coverage.insured or order.patient
    company = next((one for one in (payor or {}).get("identifier", ()) if one.get("system") != NPI), None)
    company_id = cx(company, authorities.name(company), "") if company else leaf((payor or {}).get("id", ""))
    named = payor is not None and payor["resourceType"] == "Organization"
    classes = {_code(one.get("type")): one for one in resource.get("class", ())}
    plan = classes.get("plan", {})
    period = resource.get("period", {})
    return row(
        "IN1",
        {
            1: str(number),
            2: components(plan.get("value"), plan.get("name")) or ce(resource.get("type")),
            3: company_id,
            4: xon(payor) if named else "",
            5: addresses(payor) if named else "",
            8: leaf(classes.get("group", {}).get("value")),
            12: moment(period.get("start", "")[:10]),
            13: moment(period.get("end", "")[:10]),
            16: xpn(insured),
            17: _relationship(resource.get("relationship")) or (SELF if coverage.insured is None else ""),
            18: moment(insured.get("birthDate")),
            19: addresses(insured),
            36: leaf(resource.get("subscriberId") or _first_value(resource)),
        },
    )


def _gt1(order: LaboratoryOrder, guarantor: Resource, authorities: Authorities) -> str:
    organization = guarantor["resourceType"] == "Organization"
    own = guarantor["resourceType"] == "Patient" and guarantor.get("id") == order.patient["id"]
    number = order.record_numbers[0] if own and order.record_numbers else None
    return row(
        "GT1",
        {
            1: "1",
            2: cx(number, authorities.name(number), "MR") if number else "",
            3: "" if organization else xpn(guarantor),
            5: addresses(guarantor),
            6: telecoms(guarantor),
            8: moment(guarantor.get("birthDate")),
            9: SEXES.get(guarantor.get("gender", ""), ""),
            11: SELF if own else next(iter(filter(None, map(_relationship, guarantor.get("relationship", ())))), ""),
            21: xon(guarantor) if organization else "",
        },
    )


def _relationship(concept: Resource | None) -> str:
    codes = (RELATIONSHIPS.get(coding.get("code", "")) for coding in (concept or {}).get("coding", ()))
    return next((code for code in codes if code), "")


def _code(concept: Resource | None) -> str:
    return next((str(coding.get("code", "")) for coding in (concept or {}).get("coding", ())), "")


def _first_value(resource: Resource) -> str:
    return next((str(one["value"]) for one in resource.get("identifier", ()) if "value" in one), "")
