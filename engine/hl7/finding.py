"""Findings: what was judged of a message, in the terms of HL7 table 0357 and of ERR; never a value of the message."""

from enum import IntEnum, StrEnum
from typing import NamedTuple


class ErrorCode(IntEnum):
    """HL7 table 0357, message error condition codes (the ones in use here)."""

    SEGMENT_SEQUENCE = 100
    REQUIRED_MISSING = 101
    DATA_TYPE = 102
    TABLE_VALUE = 103
    UNSUPPORTED_MESSAGE = 200
    UNSUPPORTED_EVENT = 201
    UNSUPPORTED_PROCESSING = 202
    UNSUPPORTED_VERSION = 203
    UNKNOWN_KEY = 204
    DUPLICATE_KEY = 205
    APPLICATION = 207


class FindingSeverity(StrEnum):
    """HL7 table 0516, error severity."""

    ERROR = "E"
    WARNING = "W"
    INFORMATION = "I"


class Finding(NamedTuple):
    """One fault found in a message.

    `reason` is our own code (`self-merge`, `no-identity`), `locations` are paths (`PID-3(1).1`; empty for the whole
    message), `text` says what is wrong in words that hold no value of the message.
    """

    code: ErrorCode
    reason: str
    locations: tuple[str, ...]
    text: str
    severity: FindingSeverity = FindingSeverity.ERROR
