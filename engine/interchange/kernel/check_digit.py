"""Check digits by Luhn's rule (ISO/IEC 7812-1), of LOINC codes and National Provider Identifiers."""

import re
from typing import Final

LOINC: Final = re.compile(r"\d{1,7}-\d", re.ASCII)
NPI: Final = re.compile(r"[12]\d{9}", re.ASCII)
# The prefix of an NPI on a card, which counts in its check digit: 80 for health, 840 for the United States.
ISSUER: Final = "80840"


def is_loinc(text: str) -> bool:
    """Say whether a text is a LOINC code, by its form and check digit."""
    return LOINC.fullmatch(text) is not None and _sum(text.replace("-", "")) % 10 == 0


def is_npi(text: str) -> bool:
    """Say whether a text is a National Provider Identifier, by its form and check digit."""
    return NPI.fullmatch(text) is not None and _sum(ISSUER + text) % 10 == 0


def to_npi(digits: str) -> str:
    """Return the first nine digits of an NPI with the tenth, its check digit."""
    return digits + str(-_sum(f"{ISSUER}{digits}0") % 10)


def _sum(digits: str) -> int:
    """Return the sum of Luhn's rule: every second digit from the right counts twice."""
    values = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(value // 10 + value % 10 for value in values)
