"""ISO 2022: text that switches its character set by escape sequences, as MSH-18 allows with more than one repetition.

Two registers hold a set each: G0 for the bytes 0x21-0x7E, G1 for those from 0x80 on. Every line begins with ASCII in G0
and the first repetition of MSH-18 in G1, as senders end their runs before a segment does; where that has no upper half,
a set once designated to G1 stays. Python's own iso2022 codecs know neither G1 nor a first repetition, so the runs are
cut here and each is given to the codec of its set.
"""

import re
from typing import Final, NamedTuple

_TOKEN = re.compile(rb"\x1b(?:\$[()\-]?|[()\-])[0-~]|[^\x1b]+|\x1b")
_RUN = re.compile(rb"[\x00-\x20\x7f]+|[\x21-\x7e]+|[\x80-\xff]+")
_DOUBLE_RUN = re.compile(rb"\x1b\$(?![)\-])[^\x1b\r\n]*")
_RAISED = bytes((byte | 0x80) if 0x20 < byte < 0x7F else byte for byte in range(256))
_HIGH: Final = {byte: 0xDC00 + byte for byte in range(0x80, 0x100)}
_HIDDEN: Final = {byte: 0xDC00 + byte for byte in range(0x100)}
_NOT_CONTROL: Final = {byte: 0xDC00 + byte for byte in range(0x21, 0x100) if byte != 0x7F}
ESCAPE: Final = b"\x1b"


class CodeSet(NamedTuple):
    """One coded character set: the Python codecs to try, bytes a character, and what its codec wants before each."""

    codecs: tuple[str, ...]
    width: int = 1
    raised: bool = True
    prefix: bytes = b""


ASCII: Final = CodeSet(("ascii",), raised=False)
_KANA = CodeSet(("shift_jis",))
_KANJI = CodeSet(("euc_jp", "euc_jis_2004"), 2)
_KANJI_MORE = CodeSet(("euc_jp",), 2, prefix=b"\x8f")
_KOREAN = CodeSet(("euc_kr",), 2)
_CHINESE = CodeSet(("gb2312",), 2)
_LATIN = {b"A": 1, b"B": 2, b"C": 3, b"D": 4, b"L": 5, b"G": 6, b"F": 7, b"H": 8, b"M": 9, b"b": 15}

SETS: Final[dict[bytes, tuple[int, CodeSet]]] = {
    b"(B": (0, ASCII),
    b"(J": (0, ASCII),  # JIS X 0201 Roman: its yen sign and overline are the backslash and tilde of MSH-2
    b"(I": (0, _KANA),
    b")I": (1, _KANA),
    b"$@": (0, _KANJI),
    b"$B": (0, _KANJI),
    b"$(D": (0, _KANJI_MORE),
    b"$(C": (0, _KOREAN),
    b"$)C": (1, _KOREAN),
    b"$A": (0, _CHINESE),
    b"$(A": (0, _CHINESE),
    b"$)A": (1, _CHINESE),
    **{b"-" + final: (1, CodeSet((f"iso8859_{part}",))) for final, part in _LATIN.items()},
}
"""Register and set that the bytes behind ESC designate (ISO-IR 6, 13, 14, 42, 87, 149, 159, 58, 100 and on)."""


def decode(data: bytes, high: CodeSet | None, errors: str = "strict") -> str:
    """Decode bytes that switch sets; `high` is the set of G1 at the beginning of each line, None for none.

    Raises UnicodeError for bytes outside the set in force and for a switch to an unknown set, unless errors is
    'replace'.
    """
    registers: list[CodeSet | None] = [ASCII, high]
    parts: list[str] = []
    for line in data.splitlines(keepends=True):
        registers = [ASCII, high or registers[1]]
        parts.append(_decode_line(line, registers, errors))
    return "".join(parts)


def _decode_line(line: bytes, registers: list[CodeSet | None], errors: str) -> str:
    if ESCAPE not in line and line.isascii():
        return line.decode("ascii")
    parts: list[str] = []
    for token in _TOKEN.findall(line):
        if token[:1] == ESCAPE:
            designated = SETS.get(token[1:])
            if designated is None:
                parts.append(_unknown(token, errors))
            else:
                registers[designated[0]] = designated[1]
        elif registers[0] is ASCII and token.isascii():
            parts.append(token.decode("ascii"))
        else:
            parts.extend([_decode_run(run, registers, errors) for run in _RUN.findall(token)])
    return "".join(parts)


def decode_set(data: bytes, code_set: CodeSet, errors: str = "strict") -> str:
    """Decode bytes of one set, given in either half; raises UnicodeError for bytes outside it."""
    raised = data.translate(_RAISED) if code_set.raised else data
    if code_set.prefix:
        raised = b"".join(code_set.prefix + raised[at : at + 2] for at in range(0, len(raised), 2))
    for codec in code_set.codecs[:-1]:
        try:
            return raised.decode(codec)
        except UnicodeError:
            continue
    return raised.decode(code_set.codecs[-1], errors)


def visible(data: bytes) -> str:
    """Return text of one character a byte: its own where it is ASCII text, else a lone surrogate.

    So a delimiter is seen only where the decoded text has it. `released` returns the bytes.
    """
    parts: list[str] = []
    for line in data.splitlines(keepends=True):
        low: CodeSet | None = ASCII
        for token in _TOKEN.findall(line):
            hidden = _HIDDEN if token[:1] == ESCAPE else _HIGH if low is ASCII else _NOT_CONTROL
            parts.append(token.decode("latin-1").translate(hidden))
            designated = SETS.get(token[1:]) if token[:1] == ESCAPE else None
            if designated is not None and designated[0] == 0:
                low = designated[1]
    return "".join(parts)


def released(text: str) -> bytes:
    """Return the bytes of a text that `visible` made."""
    return bytes([ord(character) & 0xFF for character in text])


def without_double_runs(data: bytes) -> bytes:
    """Return bytes of equal length with two-byte runs blanked, so that no delimiter is seen inside a character."""
    return _DOUBLE_RUN.sub(lambda run: b"\x80" * len(run[0]), data) if ESCAPE in data else data


def _decode_run(run: bytes, registers: list[CodeSet | None], errors: str) -> str:
    if run[0] <= 0x20 or run[0] == 0x7F:
        return run.decode("ascii")
    code_set = registers[run[0] >> 7]
    return run.decode("ascii", errors) if code_set is None else decode_set(run, code_set, errors)


def _unknown(token: bytes, errors: str) -> str:
    if errors != "replace":
        raise UnicodeError("unknown ISO 2022 escape sequence")
    return "\ufffd" * len(token)
