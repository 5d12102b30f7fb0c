"""A large document is written by a process of its own: the same bytes, and a failure that shows nothing of it."""

import pytest

from engine.interchange.clinical.ccda import apart
from engine.interchange.clinical.ccda.apart import DocumentFailedError, carry_out, order_of
from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.clinical.synthetic.chart import synthetic_chart
from engine.interchange.kernel.exact import write_json
from tests.interchange.ccda.charts import AT, CUSTODIAN, HOSTILE, Json, written

KEEPER = Custodian("Riverbend", "https://cdis.example", ({"system": "urn:x:y", "value": "1"},), (), {"city": "Bend"})


def order(chart: list[Json], keeper: Custodian = CUSTODIAN) -> bytes:
    """Return the order of a chart's document."""
    bodies = [write_json(one) for one in chart]
    return order_of(bodies, document_id="job-1", at=AT, zone="America/Los_Angeles", custodian=keeper)


@pytest.mark.parametrize("keeper", [CUSTODIAN, KEEPER], ids=["plain", "told"])
def test_a_process_writes_the_same_bytes(monkeypatch: pytest.MonkeyPatch, keeper: Custodian) -> None:
    """As a thread does, and as the chart itself would."""
    chart = synthetic_chart("apart", facts=80)
    chart[0]["name"][0]["family"] = HOSTILE.replace("\ufffe", "")
    here = carry_out(order(chart, keeper))
    assert here == written(chart, custodian=keeper)
    monkeypatch.setattr(apart, "LARGE_BYTES", 0)
    monkeypatch.setattr(apart, "written", None)
    assert carry_out(order(chart, keeper)) == here


def test_a_large_chart_goes_to_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of some thousand resources is not written in this one."""
    monkeypatch.setattr(apart, "written", None)
    assert carry_out(order(synthetic_chart("large", facts=600))).count(b"<entry ") > 150


def test_a_process_that_fails_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status, and no word of the chart."""
    monkeypatch.setattr(apart, "LARGE_BYTES", 0)
    with pytest.raises(DocumentFailedError) as failed:
        carry_out(b'{"chart": ["Quintero"]}')
    assert "Quintero" not in str(failed.value)
    assert str(failed.value).endswith("ended with 1")
