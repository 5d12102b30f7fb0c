"""What every process of the tests would make anew each time, made once: of the files that ship, and of mappings."""

import pickle
from collections.abc import Callable
from typing import Any

from engine.config import source
from engine.config.settings import shipped
from engine.mapping import compile as compiling
from engine.mapping.compile import MappingSource

Parse = Callable[[bytes | str, str], source.AuthoredFile]
Check = Callable[..., Any]


def remember_shipped() -> None:
    """Make each Source of a file that ships a second time of what reading it made of it the first time."""
    vars(source)["_parse"] = _remembering(vars(source)["_parse"], f"{shipped('mappings')}/")


def remember_checked() -> None:
    """Check each mapping once that is loaded and found good; compiling it for a channel checks it each time."""
    vars(compiling)["_checked"] = _once(vars(compiling)["_checked"])


def _remembering(parse: Parse, folder: str) -> Parse:
    known: dict[tuple[bytes | str, str], bytes] = {}

    def parsed(text: bytes | str, file: str) -> source.AuthoredFile:
        if not file.startswith(folder):
            return parse(text, file)
        if (text, file) not in known:
            known[text, file] = pickle.dumps(parse(text, file))
        found: source.AuthoredFile = pickle.loads(known[text, file])  # noqa: S301 - what was made here
        return found

    return parsed


def _once(check: Check) -> Check:
    good: set[str] = set()

    def checked(source: MappingSource, *others: Any) -> Any:
        if len(others) > 1:
            return check(source, *others)
        if source.problems or source.hash not in good:
            check(source, *others)
            good.add(source.hash)
        return None

    return checked
