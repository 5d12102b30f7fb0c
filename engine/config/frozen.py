"""The model of every authored value: frozen, and unknown keys are refused."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
