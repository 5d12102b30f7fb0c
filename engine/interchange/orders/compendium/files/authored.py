"""What a laboratory's file may say: who it is, its tests, and what it asks at order entry."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field

from engine.config.model import Frozen, Placed
from engine.config.text import Line, Uri, Word
from engine.fhir.primitives import ID
from engine.interchange.kernel.check_digit import is_loinc, is_npi

HANDBOOK: Final = "adt-engine help interchange"
CLIA: Final = re.compile(r"\d\dD\d{7}", re.ASCII)
LINK_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
CODE: Final = re.compile(r"[!-~]+(?: [!-~]+)*")
LONGEST_CODE: Final = 100
SNOMED: Final = "http://snomed.info/sct"
# Placeholder for a refused or missing code or id, while the rest of the file is checked.
ANY_CODE: Final = "-"


class ItemType(StrEnum):
    """What answers a question: FHIR's types of items."""

    GROUP = "group"
    DISPLAY = "display"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    OPEN_CHOICE = "open-choice"
    STRING = "string"
    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    QUANTITY = "quantity"
    DATE = "date"
    DATE_TIME = "dateTime"
    TIME = "time"


class Required(StrEnum):
    """Whether a question must be answered."""

    NO = "no"
    YES = "yes"
    WHEN_COLLECTED = "when-collected"


CHOICES: Final = frozenset({ItemType.CHOICE, ItemType.OPEN_CHOICE})
TEXTS: Final = frozenset({ItemType.STRING, ItemType.TEXT, ItemType.OPEN_CHOICE})
NUMBERS: Final = frozenset({ItemType.INTEGER, ItemType.DECIMAL, ItemType.QUANTITY})
# Which keys only some kinds have.
ONLY: Final[Mapping[str, frozenset[ItemType]]] = {"options": CHOICES, "max_length": TEXTS, "unit": NUMBERS}


def _code(text: str) -> str:
    if not CODE.fullmatch(text) or len(text) > LONGEST_CODE:
        raise ValueError(f"a code: at most {LONGEST_CODE} letters, digits and signs, with single blanks inside at most")
    return text


def _id(text: str) -> str:
    if not ID.fullmatch(text):
        raise ValueError("an id: 1 to 64 letters, digits, - and .")
    return text


def _link_id(text: str) -> str:
    if not LINK_ID.fullmatch(text):
        raise ValueError("the id of a question: 1 to 64 letters, digits, - . and _")
    return text


def _loinc(text: str) -> str:
    if text and not is_loinc(text):
        raise ValueError("a LOINC code with its check digit, such as 57698-3")
    return text


def _npi(text: str) -> str:
    if text and not is_npi(text):
        raise ValueError("a National Provider Identifier: 10 digits, the last one a check digit")
    return text


def _clia(text: str) -> str:
    if text and not CLIA.fullmatch(text):
        raise ValueError("a CLIA number, such as 05D1234567")
    return text


def _named(value: Any) -> Any:
    """Return a list of options, each its own code, as the equivalent block."""
    return dict(zip(value, value, strict=True)) if _words(value) else value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _described(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


Code = Annotated[str, AfterValidator(_code)]
LinkId = Annotated[str, AfterValidator(_link_id)]
Words = Annotated[tuple[Word, ...], BeforeValidator(_several)]


class Specimen(Frozen):
    """What a test is made from."""

    text: Word = Field(examples=["Serum"])
    code: Line = ""
    system: Uri = SNOMED


class AuthoredQuestion(Frozen):
    """One question, or a group of them."""

    id: LinkId = Field(examples=[ANY_CODE])
    text: Word = Field(examples=["?"])
    type: ItemType = Field(examples=["string"])
    required: Required = Required.NO
    options: Annotated[dict[Code, Word], BeforeValidator(_named)] = Field(default_factory=dict)
    when: dict[str, Words] = Field(default_factory=dict)
    items: tuple["AuthoredQuestion", ...] = ()
    unit: Line = ""
    max_length: int | None = Field(default=None, ge=1, le=1_000_000)
    help: Line = ""
    repeats: bool = False

    def conflicts(self) -> Iterator[Placed]:
        """Yield what a question of its type does not have, or lacks."""
        # At the type, because that is what may be a guess.
        for key, kinds in ONLY.items():
            if getattr(self, key) and self.type not in kinds:
                yield ("type",), f"{key} in a question of type {self.type}", f"only {_listed(kinds)} has {key}"
        if self.type is ItemType.CHOICE and not self.options:
            yield ("type",), "a choice without options", "write options: {Y: Yes, N: No}, or type: string"
        if self.type is ItemType.GROUP and not self.items:
            yield ("type",), "a group without items", "write its questions under items:"
        if self.type is ItemType.DISPLAY and (self.items or self.required is not Required.NO or self.repeats):
            yield ("type",), "a display that asks", "a text for reading has no items, is not required, does not repeat"


class Defaults(Frozen):
    """What holds for every test that says nothing else."""

    specimen: Annotated[Specimen | None, BeforeValidator(_described)] = None
    ask: Words = ()


class Orderable(Frozen):
    """A test that the laboratory performs."""

    code: Code = Field(examples=[ANY_CODE])
    title: Word = Field(examples=["?"])
    synonyms: Words = ()
    loinc: Annotated[str, AfterValidator(_loinc)] = ""
    specimen: Annotated[Specimen | None, BeforeValidator(_described)] = None
    ask: Words | None = None
    questions: tuple[AuthoredQuestion, ...] = ()


class Identifier(Frozen):
    """A number of the laboratory's own."""

    system: Uri = Field(examples=["urn:x"])
    value: Word = Field(examples=["?"])


class LaboratoryAddress(Frozen):
    """Where the laboratory is."""

    line: Words = ()
    city: Line = ""
    state: Line = ""
    postal_code: Line = ""
    country: Line = ""


class AuthoredLaboratory(Frozen):
    """Who performs the tests; `id` is that of its Organization."""

    id: Annotated[str, AfterValidator(_id)] = Field(examples=["laboratory"])
    name: Word = Field(examples=["?"])
    alias: Words = ()
    clia: Annotated[str, AfterValidator(_clia)] = ""
    npi: Annotated[str, AfterValidator(_npi)] = ""
    identifiers: tuple[Identifier, ...] = ()
    telephone: Line = ""
    address: LaboratoryAddress = LaboratoryAddress()
    ordering_enabled: bool = True


class Authored(Frozen):
    """A laboratory's file: YAML with the laboratory, and its tests, there or in a separate table (CSV)."""

    handbook: ClassVar[str] = HANDBOOK
    laboratory: AuthoredLaboratory = Field(examples=[{"id": "laboratory", "name": "?"}])
    defaults: Defaults = Defaults()
    question_sets: dict[LinkId, tuple[AuthoredQuestion, ...]] = Field(default_factory=dict)
    table: Line = ""
    tests: tuple[Orderable, ...] = ()

    def conflicts(self) -> Iterator[Placed]:
        """Yield that there is no test."""
        if not self.tests and not self.table:
            yield (), "no test", "write tests:, or table: FILE.csv with one test a line"


class TestTable(Frozen):
    """The tests of a table."""

    handbook: ClassVar[str] = HANDBOOK
    tests: tuple[Orderable, ...] = ()


def _listed(kinds: frozenset[ItemType]) -> str:
    return " or ".join(sorted(kinds))
