"""Secrets: references to the environment or to a file, read when used, never shown."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.config.model import Frozen, Placed
from engine.config.settings import environment
from engine.config.text import BESIDE, FilePath, Word

_MENDS: Final = {
    "env": "set it for the process that reads it; elsewhere check with --offline",
    "file": f"name a file that only its reader can read, {BESIDE}: check as that user, elsewhere with --offline",
}


class Secret(Frozen):
    """A reference to a secret: `{env: NAME}` or `{file: PATH}`; its text is read on each use, so that it can rotate."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    env: Word | None = Field(None, description="the variable of the environment that holds it")
    file: FilePath | None = Field(None, description="the file that holds it, readable by its owner only")

    @model_validator(mode="before")
    @classmethod
    def _reference(cls, value: Any) -> Any:
        if not isinstance(value, dict | Secret):
            raise PydanticCustomError("literal_secret", "refer to it: {env: NAME} or {file: PATH}")
        return value

    @model_validator(mode="after")
    def _one(self) -> "Secret":
        if (self.env is None) == (self.file is None):
            raise ValueError("give either env or file")
        return self

    def unavailable(self) -> Iterator[Placed]:
        """Yield why the secret cannot be read now; never the secret."""
        try:
            self.read()
        except LookupError as error:
            key = "env" if self.env is not None else "file"
            yield (key,), str(error), _MENDS[key]

    def read(self) -> str:
        """Return the secret's text; LookupError names the reference, never the secret."""
        if self.env is not None:
            text = environment(self.env)
            if not text:
                raise LookupError(f"the environment variable {self.env} is not set")
            return text
        path = Path(str(self.file))
        try:
            status = path.stat()
            if status.st_mode & 0o077:
                raise LookupError(f"{path} may be read by others: chmod 600 {path}")
            if status.st_uid not in {0, os.getuid()}:
                raise LookupError(f"{path} belongs to another user: chown it to the one that runs the engine")
            text = path.read_text().strip()
        except OSError as error:
            raise LookupError(f"{path} cannot be read ({error.strerror})") from error
        except UnicodeDecodeError:
            # Not chained: its text shows bytes of the secret.
            raise LookupError(f"{path} holds bytes that are not UTF-8") from None
        if not text:
            raise LookupError(f"{path} is empty")
        return text


# A shorter key could be guessed, and what was hashed with it be found by trying numbers.
LEAST_KEY: Final = 16


class MappingKey(Secret):
    """The secret of a key that mappings name."""

    def unavailable(self) -> Iterator[Placed]:
        """Yield why the key cannot be used now; never the key."""
        yield from super().unavailable()
        try:
            short = len(self.read()) < LEAST_KEY
        except LookupError:
            return
        if short:
            key = "env" if self.env is not None else "file"
            yield (key,), f"a key of fewer than {LEAST_KEY} characters", "make one with: openssl rand -hex 32"
