"""What the service has of a simulation's people and visits, as the facts that the fold tells."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tests.flow.feed import SYSTEM
from tests.flow.rig import Rig
from tests.flow.simulated_fold import named
from tests.flow.simulated_message import Number

AUTHORITIES: Final = {"RVB": SYSTEM, "LKS": "https://mrn.lakeside.example"}
SECURITY: Final = "http://hl7.org/fhir/sid/us-ssn"
_NAMES: Final = {system: authority for authority, system in AUTHORITIES.items()}
_VISITS: Final = {f"{system}#VN": authority for authority, system in AUTHORITIES.items()}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the service has: Patients and Encounters by id, and the names of places by reference."""

    patients: Mapping[str, Any]
    visits: Mapping[str, Any]
    places: Mapping[str, str]
    leads: Mapping[Number, str]

    def versions(self) -> dict[str, str]:
        """Return the version of each Patient and Encounter."""
        resources = (*self.patients.values(), *self.visits.values())
        return {f"{resource['resourceType']}/{resource['id']}": resource["meta"]["versionId"] for resource in resources}

    def facts(self) -> dict[str, dict[str, object]]:
        """Return them in the words of the fold."""
        found: dict[str, dict[str, object]] = {}
        for patient in self.patients.values():
            found[f"chart {self._chart(patient['id'])}"] = self._person(patient)
        for number, logical_id in self.leads.items():
            found[f"number {named([number])}"] = {"leads to": self._chart(logical_id)}
        for visit in self.visits.values():
            found[f"visit {named(_numbers(visit, _VISITS))}"] = self._visit(visit)
        return found

    def _chart(self, logical_id: str) -> str:
        return named(_numbers(self.patients[logical_id], _NAMES))

    def _person(self, patient: Mapping[str, Any]) -> dict[str, object]:
        return {
            "current": sorted(_numbers(patient, _NAMES)),
            "old": sorted(_numbers(patient, _NAMES, old=True)),
            "security": sorted(one["value"] for one in patient["identifier"] if one["system"] == SECURITY),
            "merged into": next((self._chart(one) for one in _linked(patient, "replaced-by")), ""),
            "links": sorted(self._chart(one) for one in _linked(patient, "seealso")),
            "active": str(patient["active"]).lower(),
            "birthDate": patient.get("birthDate", ""),
            "gender": patient.get("gender", ""),
            "maritalStatus": patient.get("maritalStatus", {}).get("coding", [{}])[0].get("code", ""),
            "deceased": _moment(patient.get("deceasedDateTime", "")),
            "name": sorted(" ".join((name["family"], *name.get("given", ()))) for name in patient.get("name", ())),
            "address": sorted(
                ", ".join((*address["line"], address["city"], address["state"], address["postalCode"]))
                for address in patient.get("address", ())
            ),
            "phone": sorted(telecom["value"] for telecom in patient.get("telecom", ())),
        }

    def _visit(self, visit: Mapping[str, Any]) -> dict[str, object]:
        period = visit.get("period", {})
        return {
            "subject": self._chart(_id(visit["subject"])),
            "status": visit["status"],
            "places": sorted(
                (
                    self.places[location["location"]["reference"]],
                    location["status"],
                    _moment(location.get("period", {}).get("start", "")),
                    _moment(location.get("period", {}).get("end", "")),
                )
                for location in visit.get("location", ())
            ),
            "class": visit["class"]["code"],
            "start": _moment(period.get("start", "")),
            "end": _moment(period.get("end", "")),
        }


async def snapshot(rig: Rig, numbers: Iterable[Number] = ()) -> Snapshot:
    """Read everything from the service, and ask it for the holder of each of the numbers."""
    patients = await rig.patients()
    living = [key for key, one in patients.items() if not _linked(one, "replaced-by")]
    visits = {one["id"]: one for one in await rig.visits(living)}
    named_places = {one["location"]["reference"] for visit in visits.values() for one in visit.get("location", ())}
    places = {reference: str((await rig.get(f"/{reference}"))["name"]) for reference in sorted(named_places)}
    leads = {}
    for authority, value in numbers:
        bundle = await rig.get(f"/Patient?identifier={AUTHORITIES[authority]}|{value}")
        (entry,) = bundle["entry"]
        leads[authority, value] = entry["resource"]["id"]
    return Snapshot(patients, visits, places, leads)


def _numbers(resource: Mapping[str, Any], systems: Mapping[str, str], *, old: bool = False) -> list[Number]:
    ours = [one for one in resource["identifier"] if one["system"] in systems]
    return [(systems[our["system"]], our["value"]) for our in ours if (our.get("use") == "old") is old]


def _linked(patient: Mapping[str, Any], kind: str) -> list[str]:
    return [_id(link["other"]) for link in patient.get("link", ()) if link["type"] == kind]


def _id(reference: Mapping[str, Any]) -> str:
    return str(reference["reference"]).rpartition("/")[2]


def _moment(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="seconds") if text else ""
