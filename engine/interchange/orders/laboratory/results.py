"""Results of a simulated laboratory: a final report for each test of an order, with plausible invented values."""

from collections.abc import Callable
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.synthetic.codes import PANELS, LaboratoryPanel
from engine.interchange.clinical.synthetic.elements import coding, instant, loinc, term
from engine.interchange.clinical.synthetic.measures import measured
from engine.interchange.clinical.synthetic.person import Draw
from engine.interchange.orders.completion import FINAL, REPORT
from engine.interchange.orders.order import TEST, find_order, tests_of
from engine.interchange.store import transmission
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.transmission import Sent

Resource = JsonObject

# Words that do not identify a test.
EVERYWHERE: Final = frozenset({"panel", "test", "in", "of", "by", "-", "or", "serum", "plasma", "blood", "total"})


def return_results(transaction: Transaction, sent: Sent, sis: str, new_id: Callable[[], str]) -> int:
    """Keep final reports with their observations for the tests of an order that have none; return how many."""
    transmission.results_returned(transaction, sent)
    stored = find_order(transaction, sent.order_id)
    if stored is None:
        return 0
    order = stored.resource()
    made = 0
    for test_id in tests_of(order):
        test = transaction.get(TEST, test_id)
        if test is None or test.deleted or _reported(transaction, test_id):
            continue
        _report(transaction, order, test.resource(), f"{sis}/{sent.order_id}/{test_id}", sent.laboratory, new_id)
        made += 1
    return made


def _reported(transaction: Transaction, test_id: str) -> bool:
    reports = (referrer for referrer in transaction.referrers(f"{TEST}/{test_id}") if referrer.type == REPORT)
    return any(report.resource().get("status") in FINAL for report in reports)


def _report(
    transaction: Transaction, order: Resource, test: Resource, seed: str, laboratory: str, new_id: Callable[[], str]
) -> None:
    draw = Draw(seed)
    panel = _panel(test, draw)
    known = transaction.get("Organization", laboratory)
    performer = {"performer": [{"reference": f"Organization/{laboratory}"}]} if known is not None else {}
    at = instant(transaction.at)
    shared: Resource = {
        "status": "final",
        "subject": order["subject"],
        "basedOn": [{"reference": f"{TEST}/{test['id']}"}],
        "effectiveDateTime": at,
        "issued": at,
        **performer,
    }
    results = []
    for one in panel.tests:
        observation = {
            "resourceType": "Observation",
            **shared,
            "category": [term("observation-category", "laboratory", "Laboratory")],
            "code": loinc(one.loinc, one.text),
            **measured(draw, one),
        }
        kept = transaction.create("Observation", new_id(), observation)
        results.append({"reference": f"Observation/{kept.id}"})
    code = test.get("code", {})
    named = {**code, "coding": [coding("http://loinc.org", panel.loinc, panel.text), *code.get("coding", ())]}
    report = {
        "resourceType": REPORT,
        **shared,
        "category": [term("v2-0074", "LAB", "Laboratory")],
        "code": named,
        "result": results,
    }
    transaction.create(REPORT, new_id(), report)


def _panel(test: Resource, draw: Draw) -> LaboratoryPanel:
    """Return what a test measures: by its LOINC code, else by the words of its title, else whatever comes."""
    codings = test.get("code", {}).get("coding", ())
    codes = {one.get("code") for one in codings}
    words = {word.lower() for one in codings for word in str(one.get("display", "")).split()} - EVERYWHERE
    coded = next((one for one in PANELS if one.loinc in codes), None)
    titled = max(PANELS, key=lambda one: len(words & _words(one)))
    return coded or (titled if words & _words(titled) else draw.pick(PANELS))


def _words(panel: LaboratoryPanel) -> set[str]:
    texts = [panel.text, *(test.text for test in panel.tests)]
    return {word.lower() for text in texts for word in text.split()} - EVERYWHERE
