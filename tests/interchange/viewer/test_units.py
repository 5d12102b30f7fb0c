"""Units as people write them: common codes of UCUM, annotations, powers, and what is left as it is."""

import pytest

from engine.interchange.web.viewer.naming import readable


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        ("10*3/uL", "×10³/µL"),
        ("10*12/L", "×10¹²/L"),
        ("10^9/L", "×10⁹/L"),
        ("mm[Hg]", "mmHg"),
        ("[degF]", "°F"),
        ("Cel", "°C"),
        ("{beats}/min", "beats/min"),
        ("{cells}/uL", "cells/µL"),
        ("/min", "/min"),
        ("/[HPF]", "/HPF"),
        ("umol/L", "µmol/L"),
        ("ug/dL", "µg/dL"),
        ("um", "µm"),
        ("u[IU]/mL", "µIU/mL"),
        ("m[IU]/L", "mIU/L"),
        ("[IU]/L", "IU/L"),
        ("meq/L", "mEq/L"),
        ("mosm/kg", "mOsm/kg"),
        ("mL/min/{1.73_m2}", "mL/min/1.73 m²"),
        ("mg/g{creat}", "mg/g creat"),
        ("mg/(24.h)", "mg/24 h"),
        ("kg/m2", "kg/m²"),
        ("mL.min-1", "mL min⁻¹"),
        ("cm[H2O]", "cmH₂O"),
        ("[lb_av]", "lb"),
        ("[in_i]", "in"),
        ("[GPL'U]/mL", "GPL U/mL"),
        ("[mi_us]", "mi_us"),
        ("{INR}", "INR"),
        ("{score}", "score"),
        ("%{saturation}", "%"),
        ("1", ""),
        ("mo", "months"),
        ("a", "years"),
    ],
)
def test_units_of_ucum(unit: str, written: str) -> None:
    """A code of UCUM is written as on a laboratory's report."""
    assert readable(unit) == written


@pytest.mark.parametrize(
    "unit",
    ["", "%", "mg/dL", "mmol/L", "g/dL", "U/L", "fL", "pg", "kg", "cm", "ng/mL", "Units", "per 1.5 m", "mL/1.5", "A1"],
)
def test_what_is_left_as_it_is(unit: str) -> None:
    """A unit that people write so already, and one in words, do not change."""
    assert readable(unit) == unit


def test_what_is_unclosed() -> None:
    """A unit that is not of UCUM's syntax loses nothing that matters."""
    assert readable("{x") == "{x"
    assert readable("mg/{") == "mg/{"
