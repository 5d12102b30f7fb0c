"""All acts, in one table."""

from typing import Final

from engine.ops.acts.channels import CHANNELS
from engine.ops.acts.messages import MESSAGES

ALL: Final = (*MESSAGES, *CHANNELS)
