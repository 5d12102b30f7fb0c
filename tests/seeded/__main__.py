"""Plant each bug and see its tests die: `python -m tests.seeded`; by hand, it takes most of an hour.

`--only WORDS` plants those whose harm or function has the words; `--sound` first runs all their tests without a bug.
Exit 1 where one survives.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.seeded.bug import BUGS, Bug
from tests.seeded.plant import Fate, copied, fate_of, passes


def main() -> int:
    """Plant what is asked for, print the fate of each bug, and count."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeded", description=__doc__)
    parser.add_argument("--only", metavar="WORDS", default="", help="those whose harm or function has these words")
    parser.add_argument("--sound", action="store_true", help="first see all tests pass without a bug")
    asked = parser.parse_args()
    bugs = [bug for bug in BUGS if asked.only in bug.harm or asked.only in bug.function]
    with tempfile.TemporaryDirectory(prefix="seeded-") as folder:
        copy = copied(Path(folder) / "project")
        if asked.sound and not passes(copy, tuple(sorted({test for bug in bugs for test in bug.tests}))):
            _say("the tests fail without a bug: no bug can be judged")
            return 1
        fates = [_tried(bug, copy) for bug in bugs]
    _say(", ".join(f"{fates.count(fate)} {fate}" for fate in Fate) + f" of {len(fates)}")
    return int(Fate.SURVIVED in fates)


def _tried(bug: Bug, copy: Path) -> Fate:
    begun = time.monotonic()
    fate = fate_of(bug, copy)
    _say(f"{fate:8} {time.monotonic() - begun:5.0f} s  {bug.function}: {bug.harm}")
    return fate


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
