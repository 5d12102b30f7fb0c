"""Segment ends and names: CR as the standard says, CRLF and LF as senders do; names of HL7 2.1 to 2.9 and of a site.

CR always ends a segment. LF does where segments end in it: in a message without CR, or whose MSH ends in LF. There a
line that does not begin as a segment does belongs to the segment before it. Where segments end in CR a lone LF is text,
a line break that somebody typed into an address, unless a Z segment, or one that messages of the type have, begins
behind it. One that begins with another segment of the standard may be either: nobody can say, and `unclear` does.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

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


LEADING = "\x00\x0b\r\n\t \ufeff"
TRAILING = "\x0b\x1c\r\n\x00"
LEADING_BYTES = b"\x00\x0b\r\n\t \xef\xbb\xbf"
_NAMES: Final = rf"(?:{'|'.join(sorted(KNOWN))}|Z[A-Z0-9]{{2}})"
# Behind LF: a known segment, also with blanks, in small letters or as a bare name; or one as any sender writes it.
_MEANS: Final = rf"[ \t]*(?i:{_NAMES})[ \t]*(?:%s)|{_NAMES}(?=[\r\n]|\Z)"
_BEGINS: Final = rf"[A-Z][A-Z0-9]{{2}}(?:%s)|{_MEANS}"
_SURELY: Final = rf"({_NAMES})(?:%s)"
_BREAK: Final = re.compile(r"\n+")


class Lines(NamedTuple):
    """The texts of a message's segments, and the numbers, from 1, of those whose reading is worth a word.

    `by_feed`: a lone LF, where others end in CR, begins it. `kept`: it holds a line with fields that does not begin as
    a segment. `unclear`: it holds a lone LF that may, or may not, end a segment.
    """

    texts: list[str]
    by_feed: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    unclear: tuple[int, ...] = ()


@lru_cache(maxsize=64)
def _begins(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    return re.compile(_BEGINS % (mark, mark))


@lru_cache(maxsize=64)
def _means(separator: str) -> re.Pattern[str]:
    return re.compile(_MEANS % re.escape(separator))


@lru_cache(maxsize=64)
def _surely(separator: str) -> re.Pattern[str]:
    return re.compile(_SURELY % re.escape(separator))


def cut(body: str, separator: str) -> Lines:
    """Cut a message's text into the texts of its segments, without their ends; blank lines are left out."""
    if "\n" in body:
        body = body.replace("\r\n", "\r")
    if "\n" not in body:
        lines = body.split("\r")
        return Lines([line for line in lines if line] if "" in lines else lines)
    if "\r" not in body and _all_begin_segments(lines := body.split("\n"), separator):
        return Lines(lines)
    if _ends_in_feed(body, separator):
        return _cut_at_feeds(body, separator)
    return _cut_at_returns(body, separator)


def _all_begin_segments(lines: list[str], separator: str) -> bool:
    """True if every line begins as a segment with fields does: a cheap test for the common case of LF ends."""
    for line in lines:
        name = line[:3]
        if line[3:4] != separator or not (name.isupper() and name.isalnum() and name.isascii() and name[0].isalpha()):
            return False
    return True


def _ends_in_feed(body: str, separator: str) -> bool:
    """Tell whether segments end in LF: there is no CR, or LF ends the first one."""
    end = body.find("\r")
    if end < 0:
        return True
    first = _BREAK.search(body, 0, end)
    return first is not None and _means(separator).match(body, first.end()) is not None


def _cut_at_feeds(body: str, separator: str) -> Lines:
    texts: list[str] = []
    kept: list[int] = []
    begins = _begins(separator)
    for line in body.split("\r"):
        begun = 0
        for found in _BREAK.finditer(line):
            if found.end() == len(line) or begins.match(line, found.end()):
                _add(texts, line[begun : found.start()])
                begun = found.end()
            elif separator in line[found.end() :].partition("\n")[0]:
                kept.append(len(texts) + 1)
        _add(texts, line[begun:])
    return Lines(texts, kept=tuple(dict.fromkeys(kept)))


def _cut_at_returns(body: str, separator: str) -> Lines:
    texts: list[str] = []
    by_feed: list[int] = []
    unclear: list[int] = []
    surely = _surely(separator)
    carried = carried_by(_type_of(body, separator))
    for line in body.split("\r"):
        begun = 0
        for found in _BREAK.finditer(line):
            begins = surely.match(line, found.end())
            if found.end() == len(line):
                _add(texts, line[begun : found.start()])
                begun = found.end()
            elif begins and (begins[1] in carried or is_own(begins[1])):
                _add(texts, line[begun : found.start()])
                begun = found.end()
                by_feed.append(len(texts) + 1)
            elif begins:
                unclear.append(len(texts) + 1)
        _add(texts, line[begun:])
    return Lines(texts, by_feed=tuple(by_feed), unclear=tuple(dict.fromkeys(unclear)))


def _add(texts: list[str], text: str) -> None:
    if text:
        texts.append(text)


def _type_of(body: str, separator: str) -> str:
    """Return MSH-9.1 of a message's text, as nearly as cutting needs it."""
    fields = body.split(separator, 9)
    if len(fields) < 9 or not fields[1]:
        return ""
    return fields[8].split(fields[1][0], 1)[0].strip()


def first_segment(body: bytes, separator: bytes) -> bytes:
    """Return the bytes of the first segment without its end."""
    end = body.find(b"\r")
    first = body if end < 0 else body[:end]
    if b"\n" not in first:
        return first
    # Each byte one character: names and line ends are ASCII in every set that is read so.
    mark = separator.decode("latin-1")
    return cut(body[: end + 1 or None].decode("latin-1"), mark).texts[0].encode("latin-1")
