"""Speech: acknowledgements of one message, in its own delimiters, version and character set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.acknowledge.build import build
from engine.acknowledge.code import AckCode
from engine.hl7.finding import Finding
from engine.hl7.header import Header


@dataclass(frozen=True, slots=True)
class Speech:
    """Says what is to be said of one message; `new_id` gives the acknowledgement's own control id."""

    header: Header
    charset: str
    version: str
    new_id: Callable[[], str]
    clock: Callable[[], datetime]

    def say(self, code: AckCode, findings: Sequence[Finding] = ()) -> bytes:
        """Return the bytes of an acknowledgement."""
        return build(self.header, code, findings, self.new_id(), self.clock(), self.charset, version=self.version)
