"""All acts, in one table."""

from typing import Final

from engine.ops.acts.channels import CHANNELS
from engine.ops.acts.messages import MESSAGES
from engine.ops.acts.reasons import REASONS

ALL: Final = (*MESSAGES, *CHANNELS, *REASONS)
