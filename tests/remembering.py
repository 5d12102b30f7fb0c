"""What every process of the tests would make anew each time, made once: the files that ship, read as YAML."""

import pickle
from collections.abc import Callable

from engine.config import source
from engine.config.settings import shipped

Parse = Callable[[bytes | str, str], source.AuthoredFile]


def remember_shipped() -> None:
    """Make each Source of a file that ships a second time of what reading it made of it the first time."""
    vars(source)["_parse"] = _remembering(vars(source)["_parse"], f"{shipped('mappings')}/")


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
