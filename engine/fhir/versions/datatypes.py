"""Version differences in data types: dosages, signatures, money, the values of extensions."""

import re
from typing import Final

from engine.fhir.json import Json
from engine.fhir.versions.lens import Lens, Part, renamed
from engine.fhir.versions.preserve_as_extension import CARRIERS, held, held_value, marked, value_key

CURRENCIES: Final = "urn:iso:std:iso:4217"
UUID: Final = re.compile(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
URIS: Final = "urn:ietf:rfc:3986"
DOSES: Final = ("doseQuantity", "doseRange", "rateQuantity", "rateRange", "rateRatio")
CARRIED: Final = {value_key(name): name for name in CARRIERS}


def who(stem: str, r4: str) -> Lens:
    """Return the lens of a URI or reference that R4 has as a Reference: there, a URI is an identifier."""
    uri, reference = f"{stem}Uri", f"{stem}Reference"

    def to_r4(part: Part) -> Part:
        if reference in part:
            return {r4: part[reference]}
        return {r4: {"identifier": {"system": URIS, "value": part[uri]}}} if uri in part else {}

    def to_stu3(part: Part) -> Part:
        if r4 not in part:
            return {}
        identifier = part[r4].get("identifier", {})
        by_uri = part[r4].keys() == {"identifier"} and identifier.keys() == {"system", "value"}
        if by_uri and identifier["system"] == URIS:
            return {uri: identifier["value"]}
        return {reference: part[r4]}

    return Lens((uri, reference), (r4,), to_r4, to_stu3)


def _dosage_to_r4(part: Part) -> Part:
    return {"doseAndRate": [part]} if part else {}


def _dosage_to_stu3(part: Part) -> Part:
    first = part["doseAndRate"][0] if part.get("doseAndRate") else {}
    return {name: first[name] for name in DOSES if name in first}


def _money_to_r4(part: Part) -> Part:
    return {"currency": part["code"]} if part.get("system") == CURRENCIES and "code" in part else {}


def _money_to_stu3(part: Part) -> Part:
    return {"system": CURRENCIES, "code": part["currency"]} if "currency" in part else {}


def _value_to_r4(part: Part) -> Part:
    """Return a value with the type that is written in it; unchanged if R4 does not allow that type there."""
    found = held_value(part)
    if found is None or found.name not in CARRIED or not _fits(found.name, found.value):
        return part
    value = _money(found.value) if found.name == "valueMoney" else found.value
    pairs = ((found.name, value), (f"_{found.name}", found.companion))
    made = {name: one for name, one in pairs if one is not None}
    return made if _value_to_stu3(made) == part else part


def _value_to_stu3(part: Part) -> Part:
    for key, type_name in CARRIED.items():
        value, companion = part.get(key), part.get(f"_{key}")
        if isinstance(value, dict):
            return {"valueQuantity": marked(_quantity(value) if type_name == "Money" else value, type_name)}
        if value is not None or companion is not None:
            return held(CARRIERS[type_name], value, companion, type_name)
    return part


def _fits(key: str, value: Json) -> bool:
    if CARRIERS[CARRIED[key]] == "Quantity":
        return isinstance(value, dict)
    return value is None or (isinstance(value, str) and (key != "valueUuid" or UUID.fullmatch(value) is not None))


def _money(value: Part) -> Part:
    currency = _money_to_r4(value)
    return (
        {name: one for name, one in value.items() if name not in {"system", "code"}} | currency if currency else value
    )


def _quantity(value: Part) -> Part:
    code = _money_to_stu3(value)
    return {name: one for name, one in value.items() if name != "currency"} | code if code else value


LENSES: Final = {
    "Dosage": (Lens(DOSES, ("doseAndRate",), _dosage_to_r4, _dosage_to_stu3),),
    "Extension": (
        Lens(("valueQuantity", "extension"), ("valueQuantity", "extension", *CARRIED), _value_to_r4, _value_to_stu3),
    ),
    "Money": (Lens(("system", "code"), ("currency",), _money_to_r4, _money_to_stu3),),
    "Signature": (
        who("who", "who"),
        who("onBehalfOf", "onBehalfOf"),
        renamed("blob", "data"),
        renamed("contentType", "sigFormat"),
    ),
}
