"""`sites.yaml` next to the channel files: other engines whose state the page Sites shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from engine.config import pem
from engine.config.model import Frozen, Placed
from engine.config.network import encrypted_url
from engine.config.secret import Secret
from engine.config.source import AuthoredFile, Looked, look, scan
from engine.config.text import FilePath, Word
from engine.errors import ConfigurationError

FILE: Final = "sites.yaml"
MOST_SITES: Final = 50


def _pages(text: str) -> str:
    """Return the address of an engine's pages without a slash at its end; ValueError where it has a path or a query."""
    url = encrypted_url(text)
    parts = urlsplit(url)
    if parts.path.strip("/") or parts.query:
        raise ValueError("write the address of the engine's pages alone, such as https://adt.north.example:8081")
    return f"{parts.scheme}://{parts.netloc}"


class SiteSettings(Frozen):
    """One engine, and how its API is asked."""

    name: Word = Field(min_length=1, max_length=64, description="what the engine is called here")
    url: Annotated[str, AfterValidator(_pages)] = Field(
        description="address of its pages and API", examples=["https://adt.north.example:8081"]
    )
    token: Secret = Field(description="API token of that engine, of the role viewer")
    ca_file: FilePath | None = Field(None, description="PEM file of a private authority; TLS is always verified")

    def unavailable(self) -> Iterator[Placed]:
        """Yield an authority that cannot be read."""
        if self.ca_file is not None:
            yield from pem.authority("ca_file", self.ca_file)


class Sites(Frozen):
    """Other engines, asked by their HTTP APIs; nothing is changed there."""

    sites: tuple[SiteSettings, ...] = Field((), max_length=MOST_SITES, description="the engines, at most 50")
    refresh_seconds: float = Field(15, ge=5, le=3600, description="time from one question to a site to the next")
    timeout_seconds: float = Field(10, gt=0, le=60, description="longest wait for all that one site is asked")

    def conflicts(self) -> Iterator[Placed]:
        """Yield a name or an address that two sites have."""
        for key in ("name", "url"):
            values = [str(getattr(site, key)) for site in self.sites]
            for number, value in enumerate(values):
                if value in values[:number]:
                    yield ("sites", number, key), f"{value} again", "name each engine once"


def look_at_sites(folder: Path) -> Looked[Sites]:
    """Read a folder's `sites.yaml` with every problem in it; without one, no sites."""
    path = folder / FILE
    if not path.exists():
        return Looked(AuthoredFile(str(path), None, {}), Sites(), (), frozenset())
    try:
        return look(scan(path), Sites)
    except ConfigurationError as error:
        return Looked(AuthoredFile(str(path), None, {}), None, error.problems, frozenset())
