"""Chromium of the machine, for tests and pictures; None where it is not installed."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Browser, async_playwright

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
# As root Chromium starts only without its sandbox; what it opens here are pages of ours.
OPTIONS: Final = ["--no-sandbox"] if os.geteuid() == 0 else []


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Open Chromium, without a page."""
    async with async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        await opened.close()
