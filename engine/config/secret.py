"""Secrets: references to the environment or to a file, read when used, never shown."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

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
            raise ValueError("a secret is never written in the file: use {env: NAME} or {file: PATH}")
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
            if path.stat().st_mode & 0o077:
                raise LookupError(f"{path} may be read by others: chmod 600 {path}")
            return path.read_text().strip()
        except OSError as error:
            raise LookupError(f"{path} cannot be read ({error.strerror})") from error
