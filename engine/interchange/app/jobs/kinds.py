"""Every kind of job and its work: a new one adds its line. A kind is named like its operation, without the `$`."""

from collections.abc import Mapping
from typing import Final

from engine.interchange.clinical.ccda import export
from engine.interchange.jobs.end_event import EndEvent
from engine.interchange.jobs.job import Work
from engine.interchange.network.document import search
from engine.interchange.network.patient360 import retrieve, tally
from engine.interchange.network.patient360.connectors.configured import connectors_of
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.orders import create, submit

WORK: Final[Mapping[str, Work]] = {
    export.KIND: export.work,
    search.KIND: search.work,
    create.KIND: create.work,
    submit.KIND: submit.work,
    retrieve.KIND: retrieve.retrieval(connectors_of, read_document),
}

# Kinds of jobs with an event of their own for subscribers to their end.
END_EVENTS: Final[Mapping[str, EndEvent]] = {retrieve.KIND: tally.END_EVENT}
