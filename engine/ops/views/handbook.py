"""The help pages: Markdown files of `engine/ops/docs`, the service's, and the READMEs that operators need, by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import Final

from engine.config.model import nearest
from engine.config.settings import shipped
from engine.errors import UsageError

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs"
INDEX: Final = FOLDER / "README.md"
# In a wheel these stand elsewhere than in a checkout, and the index links to them as in a checkout.
SHIPPED: Final = frozenset({"channels", "mappings"})
_ROW: Final = re.compile(r"^\| \[(?P<title>[^\]]+)\]\((?P<link>[^)]+)\) \| (?P<purpose>.+) \|$", re.MULTILINE)
_MARK: Final = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class HelpPage:
    """One help page: the name that people type, its title, one line of what it is for, and its file."""

    name: str
    title: str
    purpose: str
    file: Path

    def text(self) -> str:
        """Return its Markdown, without the comments that mark generated tables."""
        return read(self.file)


def read(file: Path) -> str:
    """Return a file's Markdown, without its comments."""
    return _MARK.sub("", file.read_text(encoding="utf-8"))


def _page(row: re.Match[str]) -> HelpPage:
    file = PurePosixPath(normpath(PurePosixPath(FOLDER.name) / row["link"]))
    room = file.parent.name
    place = shipped(room) / file.name if room in SHIPPED else FOLDER / row["link"]
    name = room if file.name == INDEX.name else file.stem
    return HelpPage(name, row["title"], row["purpose"], place.resolve())


def _pages() -> Mapping[str, HelpPage]:
    found = (_page(row) for row in _ROW.finditer(INDEX.read_text(encoding="utf-8")))
    return {page.name: page for page in found}


PAGES: Final = _pages()
# Folder and file are enough to tell a page, and are the same in a wheel.
_NAMES: Final = {page.file.parts[-2:]: page.name for page in PAGES.values()} | {INDEX.parts[-2:]: ""}


def page_of(name: str) -> HelpPage:
    """Return the page of a name; UsageError names the nearest one, and repeats nothing of what was typed."""
    if name not in PAGES:
        raise UsageError(f"there is no such help page; {nearest(name, PAGES)}")
    return PAGES[name]


def linked(page: str, link: str) -> str | None:
    """Return where a link of a page leads, as `NAME` or `NAME#place` ('' is the index); None where to no page.

    `page`: the name of the page that holds the link, '' for the index.
    """
    path, mark, place = link.partition("#")
    file = PAGES[page].file if page else INDEX
    parts = PurePosixPath(normpath(PurePosixPath(file.parent.name, path))).parts if path else file.parts
    name = _NAMES.get(parts[-2:])
    return None if name is None else f"{name}{mark}{place}"
