"""Every kind of job and its work: a new one adds its line. A kind is named like its operation, without the `$`."""

from collections.abc import Mapping
from typing import Final

from engine.interchange.ccda import export
from engine.interchange.document import search
from engine.interchange.jobs.job import Work

WORK: Final[Mapping[str, Work]] = {
    export.KIND: export.work,
    search.KIND: search.work,
}
