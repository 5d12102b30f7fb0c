"""Code systems, codes and units as others spell them, and as they are meant: one table a kind."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from engine.fhir.versions.addresses import IN_R4
from engine.interchange.clinical.ccda.codes import BY_OID, OID, system_by_oid, system_by_uri

LOINC: Final = "http://loinc.org"
SNOMED: Final = "http://snomed.info/sct"
RXNORM: Final = "http://www.nlm.nih.gov/research/umls/rxnorm"
CVX: Final = "http://hl7.org/fhir/sid/cvx"
NDC: Final = "http://hl7.org/fhir/sid/ndc"
UNII: Final = "http://fdasis.nlm.nih.gov"
CPT: Final = "http://www.ama-assn.org/go/cpt"
ICD_10_CM: Final = "http://hl7.org/fhir/sid/icd-10-cm"
ICD_10: Final = "http://hl7.org/fhir/sid/icd-10"
ICD_10_PCS: Final = "http://www.cms.gov/Medicare/Coding/ICD10"
ICD_9_CM: Final = "http://hl7.org/fhir/sid/icd-9-cm"
ICD_9_PROCEDURES: Final = "http://terminology.hl7.org/CodeSystem/ICD-9CM-procedurecodes"
UCUM: Final = "http://unitsofmeasure.org"

# Other addresses and names of systems (names are those of table 0396 of HL7 v2), in lower case.
ALIASES: Final = {
    "http://www.loinc.org": LOINC,
    "ln": LOINC,
    "loinc": LOINC,
    "http://snomed.info/id": SNOMED,
    "http://www.snomed.org": SNOMED,
    "http://www.ihtsdo.org/snomed-ct": SNOMED,
    "sct": SNOMED,
    "snomed": SNOMED,
    "snomedct": SNOMED,
    "snomed-ct": SNOMED,
    "snomed ct": SNOMED,
    "http://purl.bioontology.org/ontology/rxnorm": RXNORM,
    "http://rxnorm.info": RXNORM,
    "rxnorm": RXNORM,
    "http://www2a.cdc.gov/vaccines/iis/iisstandards/vaccines.asp?rpt=cvx": CVX,
    "http://www.cdc.gov/vaccines/programs/iis/code-sets.html": CVX,
    "cvx": CVX,
    "http://www.fda.gov/drugs/informationondrugs/ucm142438.htm": NDC,
    "ndc": NDC,
    "http://hl7.org/fhir/sid/icd-10-us": ICD_10_CM,
    "http://www.cdc.gov/nchs/icd/icd10cm.htm": ICD_10_CM,
    "http://www.icd10data.com/icd10cm": ICD_10_CM,
    "i10c": ICD_10_CM,
    "icd-10-cm": ICD_10_CM,
    "icd10cm": ICD_10_CM,
    "http://id.who.int/icd/release/10": ICD_10,
    "i10": ICD_10,
    "icd-10": ICD_10,
    "icd10pcs": ICD_10_PCS,
    "icd-10-pcs": ICD_10_PCS,
    "http://hl7.org/fhir/sid/icd-9-cm/diagnosis": ICD_9_CM,
    "i9cdx": ICD_9_CM,
    "icd-9-cm": ICD_9_CM,
    "http://hl7.org/fhir/sid/icd-9-cm/procedure": ICD_9_PROCEDURES,
    "i9cp": ICD_9_PROCEDURES,
    "http://www.ama-assn.org/go/cpt-4": CPT,
    "c4": CPT,
    "cpt": CPT,
    "cpt-4": CPT,
    "http://fdasis.nlm.nih.gov/srs": UNII,
    "unii": UNII,
    "http://unitsofmeasure.org/ucum.html": UCUM,
    "ucum": UCUM,
}
# Systems of R4 below the address that FHIR's own had before; those of STU3 are in HL7's list.
MOVED: Final = {
    f"http://hl7.org/fhir/{name}": f"http://terminology.hl7.org/CodeSystem/{name}"
    for name in ("allergyintolerance-clinical", "allergyintolerance-verification", "goal-achievement")
}
BLANKS: Final = re.compile(r"\s+")
DIGITS: Final = re.compile(r"[0-9]+")

# UCUM codes by what people write; found without blanks and without case where no code of UCUM itself is meant.
UNITS: Final = {
    "mmhg": "mm[Hg]",
    "mm(hg)": "mm[Hg]",
    "bpm": "/min",
    "beats/min": "/min",
    "beats/minute": "/min",
    "{beats}/min": "/min",
    "breaths/min": "/min",
    "breaths/minute": "/min",
    "{breaths}/min": "/min",
    "permin": "/min",
    "/minute": "/min",
    "degf": "[degF]",
    "degreesf": "[degF]",
    "°f": "[degF]",
    "[degf]": "[degF]",
    "fahrenheit": "[degF]",
    "degc": "Cel",
    "degreesc": "Cel",
    "°c": "Cel",
    "celsius": "Cel",
    "cel": "Cel",
    "percent": "%",
    "kgs": "kg",
    "lb": "[lb_av]",
    "lbs": "[lb_av]",
    "pounds": "[lb_av]",
    "oz": "[oz_av]",
    "in": "[in_i]",
    "inch": "[in_i]",
    "inches": "[in_i]",
    "ft": "[ft_i]",
    "kg/m^2": "kg/m2",
    "kg/m²": "kg/m2",
    "kg/(m^2)": "kg/m2",
    "mg/dl": "mg/dL",
    "g/dl": "g/dL",
    "gm/dl": "g/dL",
    "mcg/dl": "ug/dL",
    "µg/dl": "ug/dL",
    "ug/dl": "ug/dL",
    "ng/ml": "ng/mL",
    "ng/dl": "ng/dL",
    "pg/ml": "pg/mL",
    "mcg/ml": "ug/mL",
    "µg/ml": "ug/mL",
    "mg/l": "mg/L",
    "g/l": "g/L",
    "mmol/l": "mmol/L",
    "umol/l": "umol/L",
    "µmol/l": "umol/L",
    "meq/l": "meq/L",
    "u/l": "U/L",
    "units/l": "U/L",
    "iu/l": "[IU]/L",
    "miu/ml": "m[IU]/mL",
    "uiu/ml": "u[IU]/mL",
    "µiu/ml": "u[IU]/mL",
    "miu/l": "m[IU]/L",
    "iu": "[IU]",
    "fl": "fL",
    "ml": "mL",
    "cc": "mL",
    "dl": "dL",
    "mcg": "ug",
    "µg": "ug",
    "gm": "g",
    "grams": "g",
    "milligrams": "mg",
    "ml/min": "mL/min",
    "ml/min/1.73m2": "mL/min/{1.73_m2}",
    "ml/min/1.73m^2": "mL/min/{1.73_m2}",
    "ml/min/1.73": "mL/min/{1.73_m2}",
    "ml/min/{1.73_m2}": "mL/min/{1.73_m2}",
    "k/ul": "10*3/uL",
    "k/µl": "10*3/uL",
    "thou/ul": "10*3/uL",
    "x10e3/ul": "10*3/uL",
    "10e3/ul": "10*3/uL",
    "10^3/ul": "10*3/uL",
    "x10^3/ul": "10*3/uL",
    "10*3/ul": "10*3/uL",
    "m/ul": "10*6/uL",
    "m/µl": "10*6/uL",
    "x10e6/ul": "10*6/uL",
    "10e6/ul": "10*6/uL",
    "10^6/ul": "10*6/uL",
    "x10^6/ul": "10*6/uL",
    "10*6/ul": "10*6/uL",
    "10^9/l": "10*9/L",
    "x10e9/l": "10*9/L",
    "10*9/l": "10*9/L",
    "10^12/l": "10*12/L",
    "10*12/l": "10*12/L",
    "mm/hr": "mm/h",
    "sec": "s",
    "seconds": "s",
    "hr": "h",
    "hours": "h",
    "minutes": "min",
    "days": "d",
    "weeks": "wk",
    "months": "mo",
    "years": "a",
    "yrs": "a",
}
# UCUM is case-sensitive: a valid code stays as it is.
CODES: Final = frozenset(UNITS.values())


@lru_cache(maxsize=4096)
def canonical_system(uri: str) -> str:
    """Return the address by which FHIR knows a code or identifier system; an unknown one as it is, without blanks."""
    uri = uri.strip()
    bare = uri.rstrip("/")
    lower = bare.lower().replace("https://", "http://", 1)
    known = ALIASES.get(lower) or IN_R4.get(bare) or MOVED.get(bare)
    if known is not None:
        return known
    if lower.startswith(f"{SNOMED}/"):  # an edition or a version
        return SNOMED
    oid = lower.removeprefix("urn:oid:")
    if OID.fullmatch(oid):
        return system_by_oid(oid).uri
    for one in (uri, bare, lower):
        found = system_by_uri(one)
        if found is not None:
            # Of several addresses of one system the first of the table is meant.
            return BY_OID[found.oid].uri if found.oid in BY_OID else found.uri
    return uri


def canonical_code(system: str, code: str) -> str:
    """Return a code as its system writes it, where that is sure; any other one without blanks around it."""
    code = code.strip()
    form = FORMS.get(system)
    return form(BLANKS.sub("", code)) if form is not None and code else code


def ucum(text: str) -> str:
    """Return the UCUM code of a unit as people write it; '' where it is not known."""
    tight = BLANKS.sub("", text).replace("\N{GREEK SMALL LETTER MU}", "µ")
    return tight if tight in CODES else UNITS.get(tight.lower(), "")


def _nine(code: str) -> str:
    return _dotted(code.upper(), 4 if code[:1] in "Ee" else 3)


def _procedure(code: str) -> str:
    return _dotted(code.upper(), 2)


def _ten(code: str) -> str:
    return _dotted(code.upper(), 3)


def _dotted(code: str, place: int) -> str:
    return code if "." in code or len(code) <= place else f"{code[:place]}.{code[place:]}"


def _number(code: str) -> str:
    code = code.partition("|")[0]
    return code.lstrip("0") or code if DIGITS.fullmatch(code) else code


def _two_digits(code: str) -> str:
    return code.lstrip("0").zfill(2) if DIGITS.fullmatch(code) else code


FORMS: Final[dict[str, Callable[[str], str]]] = {
    LOINC: str.upper,
    SNOMED: _number,
    RXNORM: _number,
    CVX: _two_digits,
    ICD_10_CM: _ten,
    ICD_10: _ten,
    ICD_10_PCS: lambda code: code.replace(".", "").upper(),
    ICD_9_CM: _nine,
    ICD_9_PROCEDURES: _procedure,
    CPT: str.upper,
    UNII: str.upper,
}
