"""Every kind of job and its work: a new one adds its line. A kind is named like its operation, without the `$`."""

from collections.abc import Mapping
from typing import Final

from engine.interchange.clinical.ccda import export
from engine.interchange.jobs.job import Work
from engine.interchange.jobs.telling import Telling
from engine.interchange.network.document import search
from engine.interchange.network.patient360 import retrieve, telling
from engine.interchange.network.patient360.connectors.configured import connectors_of
from engine.interchange.network.patient360.connectors.read import read_document
from engine.interchange.orders import create, submit

WORK: Final[Mapping[str, Work]] = {
    export.KIND: export.work,
    search.KIND: search.work,
    create.KIND: create.work,
    submit.KIND: submit.work,
    retrieve.KIND: retrieve.retrieval(connectors_of, read_document),
}

# Kinds of whose end those are told who subscribed to it.
TELLINGS: Final[Mapping[str, Telling]] = {retrieve.KIND: telling.TELLING}
