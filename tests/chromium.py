"""Chromium of the machine, for tests and pictures; None where it is not installed."""

import os
import shutil
from typing import Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
# As root Chromium starts only without its sandbox; what it opens here are pages of ours.
OPTIONS: Final = ["--no-sandbox"] if os.geteuid() == 0 else []
