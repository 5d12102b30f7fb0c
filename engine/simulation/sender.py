"""The sending systems of the simulated hospital: who speaks, in which version and character set, with which habits."""

from dataclasses import dataclass
from typing import Final

RIVERBEND: Final = "RVB"
LAKESIDE: Final = "LKS"


@dataclass(frozen=True, slots=True)
class SendingSystem:
    """One sending system.

    `charset` is what its MSH-18 says and `codec` what it writes; `digits` how precise its times are; `structure`
    whether it fills MSH-9.3; `trailing` how many empty fields it leaves at the end of each segment; `deletes` whether
    it writes `""` for what a cancel takes back, rather than nothing; `prefix` begins its control IDs.
    """

    application: str
    facility: str
    authority: str
    version: str
    charset: str
    codec: str
    prefix: str
    digits: int = 14
    structure: bool = True
    trailing: int = 0
    deletes: bool = False

    @property
    def release(self) -> int:
        """The second number of the version: 5 for 2.5.1."""
        return int(self.version.split(".")[1])

    @property
    def wide(self) -> bool:
        """Whether it can write every character."""
        return self.codec == "utf-8"


REGISTRATION: Final = SendingSystem(
    "REG", "RIVERBEND", RIVERBEND, "2.5.1", "UNICODE UTF-8", "utf-8", "RG", deletes=True
)
EMERGENCY: Final = SendingSystem(
    "EMERG", "RIVERBEND", RIVERBEND, "2.3", "8859/1", "latin-1", "EM", digits=12, structure=False, trailing=4
)
CLINIC: Final = SendingSystem("CLINIC", "LAKESIDE", LAKESIDE, "2.4", "UTF-8", "utf-8", "LC", structure=False)
INDEX: Final = SendingSystem("MPI", "RIVERBEND", RIVERBEND, "2.8", "UNICODE UTF-8", "utf-8", "PI", trailing=1)

SENDERS: Final = (REGISTRATION, EMERGENCY, CLINIC, INDEX)
