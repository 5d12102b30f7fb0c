"""Power is lost under load: what was answered with AA is on the disk, and nothing is done twice."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.crash.disk import REBUILT, Disk, build_recorder
from tests.crash.lives import Lives
from tests.flow.feed import make_feed
from tests.flow.program import Program
from tests.flow.rig import SECRET, Rig

USUAL, SWEEP = 5, 300
CONNECTIONS = 16


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that records what is done to a disk."""
    try:
        return build_recorder(tmp_path_factory.mktemp("recorder"))
    except LookupError as error:
        pytest.skip(str(error))


class PowerCuts:
    """Lives of an engine whose disk loses what was not synced when it dies."""

    def __init__(self, rig: Rig, recorder: Path, lives: Lives, random: Random) -> None:
        self._lives = lives
        self._random = random
        self.data = rig.folder / "data"
        self.data.mkdir(exist_ok=True)
        self.log = rig.folder / "disk.log"
        environment = {"LD_PRELOAD": str(recorder), "DISK_ROOT": str(self.data), "DISK_LOG": str(self.log)}
        # A library is preloaded by a program that is run, not by a process that is forked.
        rig.engine = Program(
            rig.folder, *rig.engine.arguments, environment={"ENGINE_SECRET": SECRET} | environment, forked=False
        )

    async def cut(self, answers: int) -> None:
        """Live until so many more messages are answered, or a random point is reached, and lose power there."""
        self.log.unlink(missing_ok=True)
        disk = Disk(self.data)
        await self._lives.die_somewhere(self._random, answers)
        disk.play(self.log).cut(self._random)


@pytest.mark.timeout(7200)
async def test_power_cuts_under_load(
    rig: Rig, recorder: Path, seed: int, full_sweep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """No accepted message is lost, no patient made twice, no merge done twice, order kept."""
    random = Random(seed)
    answers = [random.randint(1, 30) for _ in range(SWEEP if full_sweep else USUAL)]
    messages = sum(answers) + 4 * len(answers)
    lives = Lives(rig, make_feed(seed, messages, messages // 10), CONNECTIONS)
    cuts = PowerCuts(rig, recorder, lives, random)
    judgement = await lives.sweep(cuts.cut, answers)
    with capsys.disabled():
        if full_sweep:
            print(f"\npower cuts: seed {seed}, {dict(judgement.counts)}, {dict(Counter(lives.deaths))}")  # noqa: T201


async def test_the_record_of_a_disk_is_whole(rig: Rig, recorder: Path, seed: int) -> None:
    """Played back with everything that was written, the record gives the folder byte for byte."""
    lives = Lives(rig, make_feed(seed, 60, 5), CONNECTIONS)
    cuts = PowerCuts(rig, recorder, lives, Random(seed))
    disk = Disk(cuts.data)
    try:
        judgement = await lives.live()
    finally:
        await lives.end()
    assert not judgement.violations, judgement.report()
    # The reader of the tests leaves an empty log of the database behind.
    there = {
        path: content
        for path in cuts.data.glob("*")
        if (content := path.read_bytes()) and not path.name.endswith(REBUILT)
    }
    played = {path: content for path, content in disk.play(cuts.log).state().items() if content}
    assert played.keys() == there.keys()
    assert [path for path in there if played[path] != there[path]] == []
