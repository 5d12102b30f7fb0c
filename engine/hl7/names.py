"""Names of segments: those that the standard has in any version, 2.1 to 2.9, and those of a message type."""

import re
from typing import Final

from engine.hl7.events import SEGMENTS as OF_ADT

ENVELOPE: Final = frozenset({"MSH", "FHS", "BHS", "BTS", "FTS"})
"""What begins or ends a message, or a batch of them: never a segment within one."""
_STANDARD: Final = """
ABS ACC ADD ADJ AFF AIG AIL AIP AIS AL1 APR ARQ ARV AUT BHS BLC BLG BPO BPX BTS BTX BUI CDM CDO CER CM0 CM1 CM2 CNS
CON CSP CSR CSS CTD CTI CTR DB1 DEV DG1 DMI DON DPS DRG DSC DSP DST ECD ECR EDU EQL EQP EQU ERQ ERR EVN FAC FHS FT1
FTS GOL GP1 GP2 GSC GSP GSR GT1 IAM IAR IIM ILT IN1 IN2 IN3 INV IPC IPR ISD ITM IVC IVT LAN LCC LCH LDP LOC LRL MCP
MFA MFE MFI MRG MSA MSH NCK NDS NK1 NPU NSC NST NTE OBR OBX ODS ODT OH1 OH2 OH3 OH4 OM1 OM2 OM3 OM4 OM5 OM6 OM7 OMC
ORC ORG ORO OVR PAC PCE PCR PD1 PDA PDC PEO PES PID PKG PM1 PMT PR1 PRA PRB PRC PRD PRT PSG PSH PSL PSS PTH PV1 PV2
PYE QAK QID QPD QRD QRF QRI RCP RDF RDT REL RF1 RFI RGS RMI ROL RQ1 RQD RX1 RXA RXC RXD RXE RXG RXO RXR RXV SAC SCD
SCH SCP SDD SFT SGH SGT SHP SID SLT SPM SPR STF STZ TCC TCD TQ1 TQ2 TXA UAC UB1 UB2 URD URS VAR VND VTQ
"""
_OF_ORU: Final = """
SFT UAC PID PD1 PRT NTE NK1 ARV OH1 OH2 OH3 OH4 PV1 PV2 ORC OBR ROL TQ1 TQ2 CTD OBX FT1 CTI SPM DSC DEV
"""
KNOWN: Final = frozenset(_STANDARD.split())
_OWN: Final = re.compile(r"Z[A-Z0-9]{2}")
_CARRIED: Final = {
    "ADT": frozenset({*OF_ADT, "PRT", "UAC", "ORC", "DSC", "OH1", "OH2", "OH3", "OH4"}) - ENVELOPE,
    "ORU": frozenset(_OF_ORU.split()),
}


def is_own(name: str) -> bool:
    """Tell whether a name is of a site's own segments: `ZBE`."""
    return _OWN.fullmatch(name) is not None


def carried_by(message_type: str) -> frozenset[str]:
    """Return the names of the segments that messages of a type may have below MSH; all there are for other types."""
    return _CARRIED.get(message_type) or KNOWN - ENVELOPE


def meant(name: str, carried: frozenset[str]) -> str:
    """Return the segment's name that one with blanks or in small letters means, '' for none of `carried`."""
    bare = name.strip()
    if is_own(bare):
        return bare
    return bare.upper() if bare.upper() in carried else ""
