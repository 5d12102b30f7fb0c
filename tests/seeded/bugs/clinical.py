"""Bugs in documents and networks: C-CDA and Patient360."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Code, Drop, Swap, Unwrap, Value

BUGS: Final = (
    Bug(
        "an entry in error is sent to other hospitals",
        "engine.interchange.clinical.ccda.record:DocumentRecord.of",
        Value("not in_error(...)", "True"),
        ("interchange/ccda/test_document.py",),
    ),
    Bug(
        "an allergy that was ruled out is sent as a present one",
        "engine.interchange.clinical.ccda.sections.allergies:_write",
        Drop("refuted", of="refuted or none_known"),
        ("interchange/ccda/test_document.py",),
    ),
    Bug(
        "a refused vaccine is sent as given",
        "engine.interchange.clinical.ccda.sections.immunizations:_write",
        Value("'true' if refused else 'false'", "'false'"),
        ("interchange/ccda/test_document.py",),
    ),
    Bug(
        "times in a document are in another zone than their offset says",
        "engine.interchange.clinical.ccda.times:_local",
        Code("moment.astimezone(zone)", "moment.replace(tzinfo=zone)"),
        ("interchange/ccda/test_values.py",),
    ),
    Bug(
        "a result below the measurable limit is sent as that exact value",
        "engine.interchange.clinical.ccda.quantities:add_compared",
        Value("comparator not in COMPARED", "True"),
        ("interchange/ccda/test_document.py",),
    ),
    Bug(
        "a local code is sent as one of another code system",
        "engine.interchange.clinical.ccda.codes:add_code",
        Drop("not demand or known[0][0].oid == demand"),
        ("interchange/ccda/test_values.py",),
    ),
    Bug(
        "a measured value loses its digits",
        "engine.interchange.clinical.ccda.quantities:number",
        Code("f'{value:f}' if isinstance(value, Decimal) else str(value)", "str(float(value))"),
        ("interchange/ccda/test_values.py",),
    ),
    Bug(
        "other hospitals cannot read a document of codes whose system has no name",
        "engine.interchange.clinical.ccda.element:_without_empty",
        Swap("''", "'-'"),
        ("interchange/ccda/test_document.py",),
    ),
    Bug(
        "the medications of a discharge are lost when its document is read",
        "engine.interchange.clinical.ccda.reading.sections:TEMPLATES",
        Drop("('35', read_medication)"),
        ("interchange/ccda/test_reading.py",),
    ),
    Bug(
        "the log shows the chart when its document cannot be written",
        "engine.interchange.clinical.ccda.apart:carry_out",
        Code(
            "f'the process that writes a document ended with {done.returncode}'",
            "f'the process that writes a document ended with {done.stderr!r}'",
        ),
        ("interchange/ccda/test_apart.py",),
    ),
    Bug(
        "another person's document is imported into a chart",
        "engine.interchange.network.patient360.importing:Importer._prepare",
        Unwrap("facts.identity"),
        ("interchange/patient360/test_importing.py",),
    ),
    Bug(
        "a clinician's change is overwritten by the next retrieval",
        "engine.interchange.network.patient360.chart_index:changed_here",
        Code(
            "former is None or _content(former.resource()) != _content(stored.resource())",
            "former is None and _content(former.resource()) != _content(stored.resource())",
        ),
        ("interchange/patient360/test_importing.py",),
    ),
    Bug(
        "a change made while an import is planned is overwritten",
        "engine.interchange.network.patient360.importing:_put",
        Code("(stored.version if stored is not None else 0) != step.replaces", "stored is None and step.replaces"),
        ("interchange/patient360/test_importing.py",),
    ),
    Bug(
        "an older document replaces what a newer one says",
        "engine.interchange.network.patient360.plan:_may_replace",
        Drop("turn > prior.newest_of(...)"),
        ("interchange/patient360/test_importing.py",),
    ),
    Bug(
        "a source that corrects itself removes what other sources state",
        "engine.interchange.network.patient360.plan:_may_replace",
        Drop("prior.only_of(...)"),
        ("interchange/patient360/test_importing.py",),
    ),
    Bug(
        "a reaction that only an older document knows is lost",
        "engine.interchange.network.patient360.plan:filled",
        Code("name in other and name not in lead", "name in lead"),
        ("interchange/patient360/test_importing.py",),
    ),
    Bug(
        "measurements of two different minutes become one",
        "engine.interchange.network.patient360.deduplicate:when",
        Code("covered[0] // 60000", "covered[0] // 3600000 * 60"),
        ("interchange/patient360/test_deduplicate.py",),
    ),
    Bug(
        "a procedure that was not done counts as done",
        "engine.interchange.network.patient360.deduplicate:key_of",
        Value("_denied(...)", "False"),
        ("interchange/patient360/test_deduplicate.py",),
    ),
    Bug(
        "a document whose import was cut off by a kill counts as complete",
        "engine.interchange.network.patient360.importing:Importer._known",
        Drop("not ledger.done"),
        ("interchange/patient360/test_kills.py",),
    ),
    Bug(
        "a cancelled retrieval goes on writing beside the next one",
        "engine.interchange.network.patient360.importing:Importer._write_batch",
        Drop("_check_attempt(...)"),
        ("interchange/patient360/test_importing.py",),
    ),
)
