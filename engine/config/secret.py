"""Secrets: references to the environment or to a file, read when used, never shown."""

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from engine.config.settings import environment


class Secret(BaseModel):
    """A reference to a secret: `{env: NAME}` or `{file: PATH}`; its text is read on each use, so that it can rotate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: str | None = None
    file: str | None = None

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
