"""What `bundle: auto` saves against `bundle: off`: CPU of engine and service a message, and time at a slow server.

    python -m tests.benchmarks.bench_bundle [--messages 150] [--rounds 2] [--delay-ms 50] [--json]

A real engine delivers to the real service, under full durability, both on this machine, in turn with each setting; each
message is of a patient that is new. `at a new ward`: an A01 that makes a visit and the six things that it names. `all
resources`: an A01 at a known ward with allergies, diagnoses, insurance and relatives, ten resources beside the patient.
`known ward`: an A01 that makes a visit and an account. `all resources again`: those messages once more, an hour later,
which change nothing but a time. Then a few of the first two, one patient after the other, with a proxy before the
service that takes so many milliseconds a request. Of all rounds the least cost is told.
"""

import argparse
import json
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import uvloop

from tests.benchmarks.machine import machine
from tests.flow.feed import FeedMessage
from tests.flow.proxy import Fault
from tests.flow.rig import Rig, channel_file, destination, write

ALL: Final = (
    "Patient, Encounter, RelatedPerson, Coverage, Account, AllergyIntolerance, Condition, Procedure, Observation"
)
LISTED: Final = (
    "NK1|1|Silva^Bruno|BRO^Brother^HL70063",
    "AL1|1|DA|70618^Penicillin^RXNORM|SV|Rash",
    "AL1|2|FA|256349002^Peanut^SCT|MO|Hives",
    "DG1|1||I20.9^Angina^I10",
    "DG1|2||E11.9^Diabetes^I10",
    "PR1|1||47562^Cholecystectomy^C4||20250301101500",
    "OBX|1|NM|8302-2^Height^LN||168|cm^^UCUM|||||F|||20260301080000",
    "IN1|1|PPO|7781|Riverbend Mutual||||||||20200101||||Silva^Carla|MTH|19400101",
)
SETTINGS: Final = ("off", "auto")


def message(number: int, ward: str, hour: int, segments: Sequence[str] = (), second: str = "") -> FeedMessage:
    """Return an A01 of a patient of one's own, with a `second` name; everybody of one ward has one doctor."""
    at = f"202603{1 + number // 3600:02d}{hour:02d}{number // 60 % 60:02d}{number % 60:02d}"
    account = f"AC{number}^^^RVB^AN"
    letters = "".join(chr(ord("a") + int(digit)) for digit in str(number))
    name = f"{ward}{hour}{number}"
    lines = (
        f"MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|{at}||ADT^A01|{name}|P|2.5.1",
        f"EVN|A01|{at}",
        f"PID|1||B{number}^^^RVB^MR||Kim^Ada{letters}^{second}||1954{1 + number % 12:02d}03|F||||||||||{account}",
        f"PV1|1|I|{ward}^312^A^RIVERBEND||||{ward}^Osei^Ada||||||||||||VB{number}^^^RVB",
        *segments,
    )
    return FeedMessage(name, number, "".join(f"{line}\r" for line in lines).encode(), "")


class Bench:
    """A service, an engine with one setting, and what they have cost so far."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._number = 0

    def numbers(self, count: int) -> range:
        """Return numbers of patients that are new."""
        self._number += count
        return range(self._number - count + 1, self._number + 1)

    async def warm_up(self) -> None:
        """Make the ward known and prove that the server honours If-Match, which needs an update."""
        for hour, second in ((5, ""), (6, "Bea")):
            await self.run([message(number, "W0", hour, (), second) for number in range(1, 21)])
        self._number = 20

    async def run(self, messages: Sequence[FeedMessage], connections: int = 8) -> dict[str, float]:
        """Deliver messages and return CPU milliseconds of engine and service, requests, and seconds a message."""
        before, calls, began = self._cpu(), len(self.rig.proxy.calls), time.perf_counter()
        await self.rig.sender(messages, connections).run()
        await self.rig.drained()
        seconds, after = time.perf_counter() - began, self._cpu()
        assert all(row.state == "delivered" for row in self.rig.rows()), self.rig.rows()[-1]
        each = {name: (after[name] - before[name]) / len(messages) * 1000 for name in before}
        asked = (len(self.rig.proxy.calls) - calls) / len(messages)
        through = {"requests": asked} if asked else {}
        return {**each, **through, "messages a second": len(messages) / seconds}

    def _cpu(self) -> dict[str, float]:
        found = {}
        for name, program in (("engine ms", self.rig.engine), ("service ms", self.rig.service)):
            times = psutil.Process(program.pid).cpu_times()
            found[name] = times.user + times.system
        return found


@asynccontextmanager
async def bench(folder: Path, setting: str, *, delay: float = 0.0, direct: bool = True) -> AsyncIterator[Bench]:
    """Start a service and an engine that delivers to it, `direct` or through the proxy, with a delay in seconds."""
    rig = Rig(folder)
    try:
        await rig.open()
        if delay:
            rig.proxy.script = lambda _call: Fault(wait_seconds=delay)
        url = f"http://127.0.0.1:{rig.service_port}" if direct else rig.proxy.url
        channel = channel_file(url) | {"destinations": [destination(url, bundle=setting)]}
        write(folder / "channels" / "riverbend-adt.yaml", channel)
        (folder / "mappings").mkdir()
        (folder / "mappings" / "adt.yaml").write_text(f"mapping: adt\nextends: shipped/adt\nresources: [{ALL}]\n")
        rig.engine.arguments = (*rig.engine.arguments, "--mappings", "mappings")
        await rig.engine.start()
        yield Bench(rig)
    finally:
        await rig.close()


async def _costs(folder: Path, setting: str, count: int) -> dict[str, dict[str, float]]:
    """Return what each kind of message costs with one setting."""
    async with bench(folder, setting) as one:
        await one.warm_up()
        wards = [message(number, f"N{number}", 6) for number in one.numbers(count)]
        lists = one.numbers(count)
        plain = [message(number, "W0", 6) for number in one.numbers(count)]
        return {
            "at a new ward": await one.run(wards),
            "all resources": await one.run([message(number, "W0", 6, LISTED) for number in lists]),
            "known ward": await one.run(plain),
            "all resources again": await one.run([message(number, "W0", 7, LISTED) for number in lists]),
        }


async def _slow(folder: Path, setting: str, count: int, delay: float) -> dict[str, dict[str, float]]:
    """Return what messages take one after the other, at a server that takes `delay` seconds a request."""
    async with bench(folder, setting, delay=delay, direct=False) as one:
        await one.warm_up()
        found = {}
        for name, ward, said in (("at a new ward", "N", ()), ("all resources", "W0", LISTED)):
            taken = []
            for number in one.numbers(count):
                taken.append(await one.run([message(number, f"{ward}{number}" if not said else ward, 6, said)], 1))
            found[f"{name}, slow server"] = {
                "ms a message": 1000 * sum(1 / each["messages a second"] for each in taken) / count,
                "requests": sum(each["requests"] for each in taken) / count,
            }
        return found


async def measure(options: argparse.Namespace) -> dict[str, Mapping[str, float]]:
    """Run all rounds and return the least figure of each, by kind of message and setting."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for setting in SETTINGS:
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
                told = await _costs(Path(one), setting, options.messages)
                told |= await _slow(Path(other), setting, max(3, options.messages // 15), options.delay_ms / 1000)
            for kind, figures in told.items():
                held = found.setdefault(f"{kind}, {setting}", figures)
                for name, value in figures.items():
                    held[name] = (max if name == "messages a second" else min)(held[name], value)
    return {name: {key: round(value, 2) for key, value in one.items()} for name, one in sorted(found.items())}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--delay-ms", type=float, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Any] = machine() | uvloop.run(measure(options))
    if options.json:
        print(json.dumps(figures, indent=2))  # noqa: T201
        return
    for name, value in figures.items():
        told = ", ".join(f"{key} {number:g}" for key, number in value.items()) if isinstance(value, dict) else value
        print(f"{name:<36} {told}")  # noqa: T201


if __name__ == "__main__":
    main()
