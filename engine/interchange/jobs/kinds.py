"""Every kind of job and its work: a new one adds its line. A kind is named like its operation, without the `$`."""

from collections.abc import Mapping
from typing import Final

from engine.interchange.document import search
from engine.interchange.jobs.job import Work

WORK: Final[Mapping[str, Work]] = {
    search.KIND: search.work,
}
