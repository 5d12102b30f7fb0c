"""What mapping a message costs: `python -m tests.benchmarks.bench_mapping` prints a table of microseconds of CPU.

Each row is the best of several rounds of one thread, parsing included where the row says so. `again`: patients whose
messages came before (a stay of many A08); `new`: every name, number, address and moment was never seen. Visits, and
what they refer to, are in a plan where the row does not say that patients are alone; `A01, all of it`: every resource
of an A01 of 2 kB, in which, when new, each allergy, diagnosis, plan and value was never seen either; `A01 of 2 kB` is
the same message where a site sends what is shipped: Patient, Encounter and what they need. `ORU`: a report of 20
results, by the mapping of results. `days`: simulated hospital
days, in which patients are new and come again as they do. Garbage is collected as the engine does it.
"""

import gc
import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.config.settings import shipped
from engine.garbage import COLLECT_AFTER
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load
from engine.simulation.world import simulate

ROUNDS = 5
AUTHORITIES = {"RVB": "https://mrn.riverbend.example", "LKS": "https://mrn.lakeside.example"}
LISTED = ("RelatedPerson", "Coverage", "AllergyIntolerance", "Condition", "Procedure", "Observation", "Account")
MESSAGES = 2_000
PATIENTS = 200
DAYS_SEED = 5
TEXT = (
    "MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|20260302060000||ADT^A08^ADT_A01|B{n:08d}|P|2.5.1|||AL|NE\r"
    "EVN|A08|202603{day:02d}{hour:02d}{minute:02d}{second:02d}|||CLERK07^Keel^Orla\r"
    "PID|1||BN{n:06d}^^^RVB^MR~{n:09d}^^^USSSA^SS||Quintero{n}^Marisol^Ines^^^^L|Alder^Josefa|19{year:02d}02{day:02d}|F||"
    "2106-3^White^CDCREC|{n} Alder Way^^Keswick^OR^97301^USA^H||^PRN^PH^^1^503^{n:07d}~^NET^Internet^m{n}@rvb.example|"
    "^WPN^PH^^1^503^{n:07d}|es^Spanish^ISO639|M|CAT|RVB{n:07d}||||2135-2^Hispanic or Latino^CDCREC||N|||||N\r"
    "PD1|||RIVERBEND CLINIC^^10021|1187^Osei^Ada^^^DR^MD\r"
    "NK1|1|Quintero{n}^Rafael^^^^^L|SPO^Spouse^HL70063|{n} Alder Way^^Keswick^OR^97301|^PRN^PH^^1^503^{n:07d}\r"
    "PV1|1|I|3W^312^A^RIVERBEND^^N^MAIN|U|||1187^Osei^Ada^^^DR^MD||||||||1|A0|||V{n:06d}^^^RVB^VN\r"
    "AL1|1|DA|7980^Penicillin^RXNORM|SV|Rash and swelling of the forearms|20110604\r"
    "DG1|1||I20.9^Angina pectoris, unspecified^I10|||A\r"
    "IN1|1|PPO^Preferred provider^L|7781|RIVERBEND MUTUAL ASSURANCE|1 Plaza^^Keswick^OR^97301\r"
    "OBX|1|NM|8302-2^Body height^LN||168|cm|||||F|||20260301223000\r"
    "OBX|2|NM|29463-7^Body weight^LN||71.5|kg|||||F|||20260301223000\r"
)
FULL = (
    "MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|20260302060000||ADT^A01^ADT_A01|B{n:08d}|P|2.5.1|||AL|NE\r"
    "EVN|A01|202603{day:02d}{hour:02d}{minute:02d}{second:02d}|||CLERK07^Keel^Orla\r"
    "PID|1||BN{n:06d}^^^RVB^MR~{n:09d}^^^USSSA^SS||Quintero{n}^Marisol^Ines^^^^L|Alder^Josefa|19{year:02d}02{day:02d}|F||"
    "2106-3^White^CDCREC|{n} Alder Way^^Keswick^OR^97301^USA^H||^PRN^PH^^1^503^{n:07d}~^NET^Internet^m{n}@rvb.example|"
    "^WPN^PH^^1^503^{n:07d}|es^Spanish^ISO639|M|CAT|RVB{n:07d}||||2135-2^Hispanic or Latino^CDCREC||N|||||N\r"
    "PD1|||RIVERBEND CLINIC^^10021|1187^Osei^Ada^^^DR^MD\r"
    "NK1|1|Quintero{n}^Rafael^^^^^L|SPO^Spouse^HL70063|{n} Alder Way^^Keswick^OR^97301|^PRN^PH^^1^503^{n:07d}\r"
    "NK1|2|Alder{n}^Josefa^^^^^L|MTH^Mother^HL70063|{n} Brook Street^^Linden^OR^97355|^PRN^PH^^1^503^{n:07d}\r"
    "PV1|1|I|3W^{n}^A^RIVERBEND^^N^MAIN|U|||1187^Osei^Ada^^^DR^MD|2204^Lund^Tor^^^DR^MD|3301^Vale^Ines^^^DR^MD|MED|"
    "|||1|A0|||V{n:06d}^^^RVB^VN|||||||||||||||||||||||||202603{day:02d}{hour:02d}{minute:02d}{second:02d}\r"
    "PV2||REG^Regular^L|^Chest pain {n}, two days, worse at night|||||20260301|20260306|5|4\r"
    "AL1|1|DA|{n}^Penicillin {n}^RXNORM|SV|Rash {n} of the forearms|201106{day:02d}\r"
    "AL1|2|FA|1{n}^Eggs {n}^SCT|MO|Hives|200802{day:02d}\r"
    "DG1|1||I20.{n}^Angina {n}, unspecified^I10|||A\r"
    "DG1|2||I10.{n}^Essential (primary) hypertension {n}^I10|||A\r"
    "IN1|1|PPO^Preferred provider^L|7781|RIVERBEND MUTUAL ASSURANCE|1 Plaza^^Keswick^OR^97301||^WPN^PH^^1^503^5550190|"
    "G-{n}|Riverbend Timber|||20250101|20261231|||Quintero{n}^Marisol^Ines|SEL|19840229|{n} Alder Way^^Keswick^OR\r"
    "OBX|1|NM|8302-2^Body height^LN||{n}|cm|||||F|||202603{day:02d}{hour:02d}{minute:02d}{second:02d}\r"
    "OBX|2|NM|29463-7^Body weight^LN||{n}.5|kg|||||F|||202603{day:02d}{hour:02d}{minute:02d}{second:02d}\r"
    "GT1|1||Quintero{n}^Rafael^^^^^L||{n} Alder Way^^Keswick^OR^97301|^PRN^PH^^1^503^{n:07d}||19571103|M||SPO\r"
    "DG1|3||E11.{n}^Type 2 diabetes mellitus {n}, without complications^I10|||F\r"
    "PR1|1||0{n}^Coronary angiography {n}^L||202603{day:02d}{hour:02d}{minute:02d}{second:02d}||45\r"
    "ZPI|1|Y|Interpreter for Spanish is booked for the ward round at nine|{n}|W3|Prefers the room at the garden side\r"
    "ZPI|2|N|Daughter is to be called before any move to another ward|{n}|W3|Has the key of the house with her\r"
)
MERGE = (
    "MSH|^~\\&|REG|RIVERBEND|||20260302060000||ADT^A40^ADT_A39|C{n:08d}|P|2.5.1\rEVN|A40|20260302060000\r"
    "PID|1||BN{n:06d}^^^RVB^MR||Quintero{n}^Marisol||19840229|F\rMRG|BX{n:06d}^^^RVB\r"
)
REPORT = (
    "MSH|^~\\&|LAB|CENTRAL|ADTENGINE|HUB|20260302101000||ORU^R01^ORU_R01|L{n:08d}|P|2.5.1\r"
    "PID|1||BN{n:06d}^^^RVB^MR||Quintero{n}^Marisol||1984021{n}|F\rORC|RE|P{n}^CDIS|F{n}^CENTRAL\r"
    "OBR|1|P{n}^CDIS|F{n}^CENTRAL|24323-8^Metabolic panel^LN|||202603{day:02d}{hour:02d}{minute:02d}{second:02d}|||||"
    "||||1187^Osei^Ada||||||202603{day:02d}{hour:02d}{minute:02d}{second:02d}||CH|F\r"
)
RESULT = (
    "OBX|{{at}}|NM|28{{at:02d}}-3^Analyte {{at}}^LN||{n}.{{at}}|mmol/L^mmol/L^UCUM|3.5-5.0|H|||F|||"
    "202603{day:02d}{hour:02d}{minute:02d}{second:02d}\r"
)
RESULTS = REPORT + "".join(RESULT.replace("{{at}}", str(at)).replace("{{at:02d}}", f"{at:02d}") for at in range(20))


def _messages(text: str, count: int) -> list[bytes]:
    numbers = {"day": 2, "hour": 6, "minute": 0, "second": 0, "year": 84}
    made = []
    for n in range(count):
        if count > 1:
            numbers = {
                "day": n % 28 + 1,
                "hour": n // 60 % 24,
                "minute": n % 60,
                "second": n // 28 % 60,
                "year": n % 99,
            }
        made.append(text.format(n=n, **numbers).encode())
    return made


def _cost(work: Callable[[Message], object], raws: Sequence[bytes], *, cold: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        cold()
        start = time.process_time()
        for raw in raws:
            work(parse(raw))
        best = min(best, (time.process_time() - start) / len(raws))
    return best * 1e6


def _work(fresh: list[Mapping], names: tuple[str, ...], message: Message) -> None:
    for name in names:
        getattr(fresh[0], name)(message)


def _nothing(_: Message) -> None:
    pass


def _patients_alone() -> MappingSource:
    """Return the shipped mapping as a site has it that sends nothing but patients."""
    with TemporaryDirectory() as folder:
        Path(folder, "adt.yaml").write_text("mapping: adt\nextends: shipped/adt\nresources: [Patient]\n", "utf-8")
        return load([Path(folder), shipped("mappings")], "adt")


def main() -> None:
    """Measure and print."""
    channel = channel_of({"authorities": AUTHORITIES, "timezone": "America/New_York"})
    source, patients = load([shipped("mappings")], "adt"), _patients_alone()
    gc.set_threshold(*COLLECT_AFTER)
    again, new, merges = _messages(TEXT, 1) * MESSAGES, _messages(TEXT, MESSAGES), _messages(MERGE, MESSAGES)
    full = _messages(FULL, MESSAGES)
    days = [message.raw for message in islice(simulate(DAYS_SEED, PATIENTS), MESSAGES)]
    fresh: list[Mapping] = [compile_mapping(source, channel)]

    def cold(of: MappingSource = source) -> None:
        fresh[0] = compile_mapping(of, channel)

    start = time.process_time()
    load([shipped("mappings")], "adt")
    rows: list[tuple[str, float, float | None]] = [
        ("load and check the shipped set", (time.process_time() - start) * 1e6, 1e6)
    ]
    parsing = _cost(_nothing, again, cold=lambda: None)
    rows.append(("parse alone", parsing, None))
    alone = partial(cold, patients)
    rest = partial(cold, sending(source, ("Patient", "Encounter", *LISTED)))
    for name, raws, prepare, aim in (
        ("again", again, lambda: None, 400),
        ("new", new, cold, 400),
        ("again, patient alone", again, alone, 150),
        ("new, patient alone", new, alone, 150),
        ("again, and the rest", again, rest, 400),
        ("new, and the rest", new, rest, 400),
        ("A01, all of it, again", _messages(FULL, 1) * MESSAGES, rest, 400),
        ("A01, all of it, new", full, rest, 400),
        ("A01 of 2 kB, again", _messages(FULL, 1) * MESSAGES, lambda: None, 400),
        ("A01 of 2 kB, new", full, cold, 400),
        ("days, patient alone", days, alone, 150),
        ("days", days, cold, 400),
        ("days, and the rest", days, rest, 400),
        ("A40, new", merges, cold, 150),
    ):
        identify = _cost(partial(_work, fresh, ("identify",)), raws, cold=prepare)
        plan = _cost(partial(_work, fresh, ("plan",)), raws, cold=prepare)
        both = _cost(partial(_work, fresh, ("identify", "plan")), raws, cold=prepare)
        rows.append((f"identify, {name}", identify - parsing, 20))
        rows.append((f"plan, {name}", plan - parsing, aim))
        rows.append((f"parse + identify + plan, {name}", both, None))
    reports, results = _messages(RESULTS, MESSAGES // 10), load([shipped("mappings")], "oru")
    parsing = _cost(_nothing, reports, cold=lambda: None)
    for name in ("identify", "plan"):
        spent = _cost(partial(_work, fresh, (name,)), reports, cold=partial(cold, results))
        rows.append((f"{name}, ORU of 20 results, new", spent - parsing, None))
    machine = f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}"
    print(f"{machine}; {len(new[0])}, {len(full[0])} and (days) {sum(map(len, days)) // len(days)} bytes a message")  # noqa: T201
    for name, cost, aim in rows:
        print(f"{name:<34} {cost:10.1f} us" + (f"   aim {aim:.0f}" if aim else ""))  # noqa: T201


if __name__ == "__main__":
    main()
