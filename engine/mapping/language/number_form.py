"""The form of an authority's numbers (`identity.normalise`): how spellings of one number become one.

The form is searched, written, merged and ordered (lanes); the message keeps the number as sent. FHIR searches by system
and value alone, so a form holds for a whole system, whatever the type of the number.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from engine.mapping.files.reference import kind_of, nearest

NORMALISE: Final = "normalise"
FORM_KEYS: Final = frozenset({"remove", "case", "leading_zeros", "pad", "keep_original"})
CASES: Final[Mapping[str, Callable[[str], str]]] = {"": str, "upper": str.upper, "lower": str.lower}
MOST_PAD: Final = 40
# Added to the system of a number as it was sent, where the original is kept.
AS_SENT: Final = "#as-sent"

Add = Callable[[tuple[str | int, ...], str, str], None]


class NumberForm(NamedTuple):
    """One form. Its steps are done in this order, so that the form of a form is the same.

    `remove`: characters that are left out; `case`: `upper`, `lower` or empty; `strip_zeros`: without leading zeros;
    `pad`: with leading zeros up to that many characters; `keep_original`: a patient also gets the number as sent.
    """

    remove: str = ""
    case: str = ""
    strip_zeros: bool = False
    pad: int = 0
    keep_original: bool = False

    def of(self, value: str) -> str:
        """Return a number in this form; one of which nothing would be left as it is."""
        kept = "".join([one for one in value if one not in self.remove]) if self.remove else value
        kept = CASES[self.case](kept)
        if self.strip_zeros:
            kept = kept.lstrip("0")
        return kept.rjust(self.pad, "0") if kept else value

    def text(self) -> str:
        """Return the form in words, such as `without leading zeros`; empty for as sent."""
        parts = (
            f"without {self.remove!r}" if self.remove else "",
            f"in {self.case} case" if self.case else "",
            "without leading zeros" if self.strip_zeros else "",
            f"with leading zeros up to {self.pad} characters" if self.pad else "",
        )
        return ", ".join(part for part in parts if part)

    def same_as(self, other: "NumberForm") -> bool:
        """True if another one makes the same of each number."""
        return self._replace(keep_original=other.keep_original) == other


AS_IT_CAME: Final = NumberForm()


def number_forms(value: Mapping[str, Any], add: Add) -> dict[str, NumberForm]:
    """Return the form of each authority's numbers, as the event file has them; faults go to `add`."""
    found: dict[str, NumberForm] = {}
    for name, rule in value.items():
        path = ("identity", NORMALISE, name)
        if "^" in name:
            add(path, f"found {name!r}", "name the authority alone: its numbers are searched whatever their type")
        elif not isinstance(rule, dict) or not rule:
            add(path, f"found {kind_of(rule)}", "expected {leading_zeros: strip}, or other keys: "
                + ", ".join(sorted(FORM_KEYS)))  # fmt: skip
        else:
            found[name] = _form(path, rule, add)
    return found


def _form(path: tuple[str | int, ...], rule: dict[str, Any], add: Add) -> NumberForm:
    for key in rule.keys() - FORM_KEYS:
        add((*path, key), f"unknown key {key!r}", nearest(key, FORM_KEYS))
    remove, case, zeros, pad, original = (
        str(rule.get(key) or "") for key in ("remove", "case", "leading_zeros", "pad", "keep_original")
    )
    if any(one.isalnum() for one in remove):
        add((*path, "remove"), f"found {remove!r}", "name separators only, such as '-. ': letters and digits count")
    if case not in CASES:
        add((*path, "case"), f"found {case!r}", "expected upper or lower")
    if zeros not in {"", "strip"}:
        add((*path, "leading_zeros"), f"found {zeros!r}", "expected strip")
    if pad and not (pad.isdecimal() and 1 <= int(pad) <= MOST_PAD):
        add((*path, "pad"), f"found {pad!r}", f"expected a number of characters from 1 to {MOST_PAD}")
    if original not in {"", "yes", "no"}:
        add((*path, "keep_original"), f"found {original!r}", "expected yes or no")
    width = int(pad) if pad.isdecimal() else 0
    return NumberForm(remove, case if case in CASES else "", zeros == "strip", width, original == "yes")
