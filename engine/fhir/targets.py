"""Which types of resources a reference element may name, in R4 and STU3."""

import csv
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from engine.fhir.schema import FhirVersion, definitions

ANY: Final[frozenset[str]] = frozenset()
# Extensions nest, so the number of paths is unbounded.
PATHS_REMEMBERED: Final = 4_096


@lru_cache(maxsize=PATHS_REMEMBERED)
def target_types(version: FhirVersion, path: str) -> frozenset[str]:
    """Return the types that the element at a path may name (`Encounter.participant.individual`, without indices).

    Empty: any type, as for the value of an extension, or the path is not one of a stored type.
    """
    types = definitions(version)
    type_name, *names = path.split(".")
    place = ("", "")
    for name in names:
        place = (type_name, name)
        element = types.get(type_name, {}).get(name)
        type_name = element.type if element is not None else "Element" if name.startswith("_") else ""
    return _table(version).get(place, ANY)


@cache
def _table(version: FhirVersion) -> dict[tuple[str, str], frozenset[str]]:
    text = files("engine.fhir").joinpath("schemas", "references.csv").read_text(encoding="utf-8")
    rows = (row for row in csv.DictReader(text.splitlines()) if row["version"] == version)
    return {(row["type"], row["element"]): frozenset(row["targets"].split()) for row in rows}
