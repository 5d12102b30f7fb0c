"""What ends in no one's hands is told as a kind and a place, never in its own words."""

import subprocess
import sys

import orjson
import pytest

CANARY = "Kanarivogel"
BEGIN = """
import asyncio, gc, logging, threading, warnings
from engine import telemetry
from engine.telemetry import hush, hush_loop
telemetry.configure()
hush()
"""
WAYS = {
    "the process": f"raise ValueError('{CANARY}')",
    "a thread": f"def fail(): raise ValueError('{CANARY}')\nt = threading.Thread(target=fail); t.start(); t.join()",
    "a finaliser": f"class Bad:\n    def __del__(self): raise ValueError('{CANARY}')\nBad()",
    "a task": (
        f"async def fail(): raise ValueError('{CANARY}')\n"
        "async def live():\n    hush_loop(asyncio.get_running_loop())\n    t = asyncio.ensure_future(fail())\n"
        "    await asyncio.sleep(0)\n    del t\n    gc.collect()\nasyncio.run(live())"
    ),
    "a library's log": f"logging.getLogger('lib').error('{CANARY} %s', '{CANARY}')",
    "a warning": f"warnings.warn('{CANARY}')",
    "Twisted": (
        "async def live():\n    from engine.receive.reactor import install\n    install()\n"
        "    from twisted.internet.defer import fail\n    from twisted.python import log\n"
        f"    fail(ValueError('{CANARY}')).addErrback(log.err)\nasyncio.run(live())"
    ),
    "a Deferred": (
        "async def live():\n    from engine.receive.reactor import install\n    install()\n"
        f"    from twisted.internet.defer import fail\n    fail(ValueError('{CANARY}'))\n    gc.collect()\n"
        "asyncio.run(live())"
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_an_error_that_nobody_caught_shows_kind_and_place_only(way: str) -> None:
    """One JSON line of ours stands on standard error, and nothing of the error's text."""
    done = subprocess.run([sys.executable, "-c", BEGIN + way], capture_output=True, text=True, check=False)
    lines = [orjson.loads(line) for line in done.stderr.splitlines()]
    assert lines
    assert {line["level"] for line in lines} == {"error"}
    assert CANARY not in done.stderr + done.stdout
