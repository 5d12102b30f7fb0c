"""Checks of authored code tables."""

import re
from typing import Any, Final

from engine.config.text import URI
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import kind_of
from engine.mapping.files.table import MappingTable, UnmappedPolicy, make_table
from engine.mapping.files.table_rows import JOINED_BY, KEY, PLACEHOLDER, keys_of

# Which HL7 code is written for a FHIR code that several have.
BACK: Final = "back"
KEYS: Final = frozenset(
    {"table", "extends", "source", "licence", "date", "hl7", "system", "unmapped", "codes", "keys", "rows", BACK}
)
ROW_KEYS: Final = frozenset({"code", "display", "system", "original"})
# The name of a key of a table with several, and the most that it may have.
KEY_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
MOST_PARTS: Final = 5


def checked_table(name: str, document: Document, problems: Problems) -> MappingTable:
    """Return the table of a document, one without codes if it is not valid; faults go to `problems`."""
    if not check_table(document, problems):
        return make_table(name, {"keys": document.value.get("keys")})
    return make_table(name, document.value, document.rows)


def check_table(document: Document, problems: Problems) -> bool:
    """True if a document is a valid table; faults go to `problems`."""
    before = len(problems.found)
    value = document.value
    problems.keys(document, (), KEYS, value)
    for key in ("source", "licence"):
        if not isinstance(value.get(key), str):
            problems.add(document, (key,), f"no {key}", f"name the {key} of the codes")
    _check_policy(value.get("unmapped"), document, problems)
    _check_system(value, ("system",), document, problems)
    back = value.get(BACK) or {}
    if not isinstance(back, dict) or not all(one is None or isinstance(one, str) for one in back.values()):
        problems.add(document, (BACK,), f"found {kind_of(back)}", "expected lines such as female: F")
        return False
    _check_keys(value.get("keys"), document, problems)
    codes = value.get("codes")
    if document.rows is not None and codes is None:
        codes = {}
    elif not isinstance(codes, dict) or not (codes or document.rows is not None):
        if len(problems.found) == before and "rows" not in value:
            expected = "write them as 'CODE: {code: ..., display: ...}', or rows: FILE.csv"
            problems.add(document, ("codes",), "no codes", expected)
        return False
    marks = len(keys_of(value)) - 1
    for code, row in codes.items():
        if code.count(JOINED_BY) != marks and marks:
            expected = f"write its {marks + 1} keys as {JOINED_BY.join(keys_of(value))}"
            problems.add(document, ("codes", code), f"found {code!r}", expected)
        _check_row(row, ("codes", code), document, problems)
    return len(problems.found) == before


def _check_keys(keys: Any, document: Document, problems: Problems) -> None:
    if keys is None:
        return
    names = keys if isinstance(keys, list) else []
    if not 2 <= len({*names}) == len(names) <= MOST_PARTS:
        found = f"found {', '.join(map(str, names)) or kind_of(keys)}"
        problems.add(document, ("keys",), found, f"name 2 to {MOST_PARTS} different keys, such as [ward, site]")
    for number, one in enumerate(names):
        if not KEY_NAME.fullmatch(str(one)) or one in {KEY, *ROW_KEYS}:
            problems.add(document, ("keys", number), f"found {one!r}", "name it by a word of your own, such as ward")


def _check_policy(policy: Any, document: Document, problems: Problems) -> None:
    words = {word.value for word in UnmappedPolicy if word is not UnmappedPolicy.DEFAULT}
    if policy is None or (isinstance(policy, str) and policy in words):
        return
    if isinstance(policy, dict) and list(policy) == ["default"] and policy["default"]:
        return
    problems.add(
        document, ("unmapped",), f"found {kind_of(policy)}", f"expected {', '.join(sorted(words))} or {{default: CODE}}"
    )


def _check_row(row: Any, path: tuple[str, ...], document: Document, problems: Problems) -> None:
    if row is None or isinstance(row, str):
        return
    if not isinstance(row, dict):
        problems.add(document, path, f"found {kind_of(row)}", "expected a code, or {code: ..., display: ...}")
        return
    problems.keys(document, path, ROW_KEYS, row)
    for key in sorted(row):
        if str(row[key]).strip() == PLACEHOLDER:
            problems.add(document, (*path, key), f"the placeholder {PLACEHOLDER!r}", "write what the code stands for")
    _check_system(row, (*path, "system"), document, problems)


def _check_system(value: dict[str, Any], path: tuple[str, ...], document: Document, problems: Problems) -> None:
    system = value.get("system")
    if system and not URI.fullmatch(str(system)):
        problems.add(document, path, f"found {system!r}", "expected the code system's URI, such as urn:x")
