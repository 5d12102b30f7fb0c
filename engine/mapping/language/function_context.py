"""The functions of expressions: their registry entries, and the context in which they are compiled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from engine.mapping.files.document import Document
from engine.mapping.files.setting import Setting
from engine.mapping.files.table import MappingTable
from engine.mapping.language.identifier import Identifiers
from engine.mapping.language.moment import Stamps
from engine.mapping.language.node import Apply


class Takes(StrEnum):
    """The input of a function."""

    TEXT = "text"
    CELLS = "cells"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class FunctionContext:
    """The context in which functions are compiled: setting of the channel, tables, identifiers and timestamps.

    `files`: the files of the tables, for problems in their rows. `by_table`: the compiled functions of codes, by
    function and tables, so that the first code of a CWE and its alternate one share them.
    """

    setting: Setting
    tables: Mapping[str, MappingTable]
    identifiers: Identifiers
    stamps: Stamps
    files: Mapping[str, Document] = field(default_factory=dict)
    by_table: dict[tuple["Make", tuple[str, ...]], Apply] = field(default_factory=dict)


Make = Callable[[FunctionContext, tuple[str, ...]], Apply]


@dataclass(frozen=True, slots=True)
class Function:
    """One entry of the registry; `gives` is a FHIR type, `tables` how many tables it must and may name.

    `reads`: the components of the given repetition that it reads; empty if it may read any. `field`: its word is a
    field of the message. `asks`: what it uses of the message in addition (`today`, `source`, `pid`). `words`: the
    number of required words, `more` of optional ones; `fault` returns what is wrong with them, or nothing. `pieces`:
    its words are texts and paths, and it gets their values after the value. `keyed`: its first word names a key of the
    channel.
    """

    takes: Takes
    gives: str
    make: Make
    text: str
    tables: tuple[int, int] = (0, 0)
    words: int = 0
    reads: tuple[int, ...] = ()
    field: bool = False
    asks: str = ""
    more: int = 0
    fault: Callable[[tuple[str, ...]], str] | None = None
    pieces: bool = False
    keyed: bool = False
