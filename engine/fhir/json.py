"""Types of JSON: a value of unknown shape, and an object whose shape the schema says."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

# A value of unknown shape, to be narrowed by isinstance before it is navigated. A reader yields lists, dicts and, where
# a number must keep its digits, Decimals; a value that is written may hold any sequence or mapping of the same.
Json = str | int | float | Decimal | bool | None | Sequence["Json"] | Mapping[str, "Json"]
# A resource of FHIR, an element of one, or another object of known schema. Its values are Any because it is validated
# against the schema before it is navigated.
JsonObject = dict[str, Any]
