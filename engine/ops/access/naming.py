"""Names of accounts and API tokens: how they are written, so that two never look alike."""

import re
import unicodedata
from typing import Final

RULE: Final = "small letters, digits, dot, dash, underscore and @, at most 64, beginning with a letter or digit"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_LONGEST_TYPED: Final = 256


def folded(typed: str) -> str:
    """Return a name as it is kept, whatever the keyboard made of it."""
    return unicodedata.normalize("NFKC", typed[:_LONGEST_TYPED]).strip().casefold()


def is_name(name: str) -> bool:
    """Say whether a folded name can be given."""
    return _NAME.fullmatch(name) is not None
