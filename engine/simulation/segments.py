"""The segments of a simulated message, each as a list of its fields; field n is at index n."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from engine.simulation import words
from engine.simulation.event import SimulatedEvent
from engine.simulation.hospital import Bed, Doctor, SendingSystem
from engine.simulation.person import SimulatedPerson
from engine.simulation.stay import Stay

Row = list[str]

NULL: Final = '""'
WITH_PRIOR: Final = frozenset({"A02", "A06", "A07", "A17"})
ADMISSION_TYPES: Final = {"E": "E", "I": "R", "O": "R", "P": "R"}


def row(name: str, fields: Mapping[int, str]) -> Row:
    """Return a segment: its name and its fields by number, up to the last one given."""
    made = [""] * (max(fields) + 1)
    made[0] = name
    for number, value in fields.items():
        made[number] = value
    while not made[-1]:
        made.pop()
    return made


def escaped(text: str) -> str:
    """Return text with the delimiters in it escaped."""
    return text.replace("\\", "\\E\\").replace("&", "\\T\\").replace("^", "\\S\\").replace("|", "\\F\\")


def stamp(sender: SendingSystem, at: datetime) -> str:
    """Return a time as precisely as a system says it."""
    return f"{at:%Y%m%d%H%M%S}"[: sender.digits]


def msh(event: SimulatedEvent, at: datetime, control_id: str, message_type: str) -> Row:
    """Return MSH; a row's index is one less than the field's number, as MSH-1 is the separator."""
    sender = event.sender
    made = ["MSH", "^~\\&", sender.application, sender.facility, "ADTENGINE", "HUB", stamp(sender, at)]
    return [*made, "", message_type, control_id, "P", sender.version, "", "", "", "", "", sender.charset]


def evn(event: SimulatedEvent, at: datetime) -> Row:
    """Return EVN."""
    sender = event.sender
    moment = stamp(sender, at)
    return row(
        "EVN",
        {
            1: event.trigger if sender.release < 7 else "",
            2: moment,
            4: event.reason,
            5: f"CL{at.minute:02d}^Keel^Orla",
            6: moment,
        },
    )


def pid(event: SimulatedEvent, at: datetime, *, other: bool = False) -> Row:
    """Return PID; `other` writes the second chart of a link."""
    person, sender = event.person, event.sender
    authority = event.other if other else event.authority
    number = (event.number if not other else "") or person.numbers[authority]
    fields = {1: "2" if other else "1", 3: _numbers(event, number, authority), 5: _names(person, sender)}
    fields |= {7: _day(person.born), 8: person.sex}
    if event.account and event.stay is not None:
        fields[18] = f"{event.stay.account}^^^{authority}^AN"
    if event.merged or event.other:
        return row("PID", fields)
    if person.known:
        fields |= _known(person, sender)
    if person.mother:
        fields |= {21: _mother(person, authority), 24: "Y" if person.order else "N"}
        fields |= {25: str(person.order)} if person.order else {}
    if event.stay is not None:
        fields[18] = f"{event.stay.account}^^^{authority}^AN"
    if person.died and event.trigger in {"A03", "A31", "A08"}:
        fields |= {29: stamp(sender, _died_at(event, at)), 30: "Y"}
    if sender.release >= 5 and not person.known:
        fields[32] = "US"
    return row("PID", fields)


def pd1(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return PD1 with the primary care provider, of people who have one."""
    person = event.person
    if not person.known or not person.policy or event.merged:
        return ()
    doctor = "1187^Osei^Ada^^^DR^MD" if event.sender.release < 7 else ""
    return (row("PD1", {3: "RIVERBEND PRIMARY CARE^^2001", 4: doctor}),)


def nk1(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return NK1, one for each contact: a snapshot."""
    sender = event.sender
    return [
        row(
            "NK1",
            {1: str(at), 2: f"{each.family}^{each.given}", 3: each.relation, 5: _telephone(sender, each.phone, "PRN")},
        )
        for at, each in enumerate(event.person.contacts, 1)
    ]


def mrg(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return MRG where something was merged or renumbered."""
    if not event.merged:
        return ()
    name = f"{event.person.family}^{event.person.given}"
    account = f"{event.account}^^^{event.authority}^AN" if event.account else ""
    merged = f"{event.merged}^^^{event.merged_of or event.authority}^MR"
    return (row("MRG", {1: merged, 3: account, 7: name}),)


def pv1(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return PV1; class N where the event speaks of a person and of no visit."""
    stay, sender = event.stay, event.sender
    if stay is None:
        return () if event.merged else (row("PV1", {1: "1", 2: "N"}),)
    fields = {
        1: "1",
        2: stay.patient_class,
        3: _place(stay.bed),
        4: "N" if event.person.mother else ADMISSION_TYPES[stay.patient_class],
        6: _place(stay.prior) if stay.prior and event.trigger in WITH_PRIOR else "",
        7: _doctor(stay.attending),
        8: _doctor(stay.referring),
        10: stay.service,
        19: f"{stay.number}^^^{event.authority}^VN",
        36: stay.disposition,
        42: _place(stay.pending) if stay.pending and event.trigger in {"A15", "A26"} else "",
        44: stamp(sender, stay.admitted_at) if stay.admitted_at else "",
        45: stamp(sender, stay.ended_at) if stay.ended_at else "",
    }
    if event.trigger == "A13" and sender.deletes:
        fields |= {36: NULL, 45: NULL}
    return (row("PV1", fields),)


def pv2(event: SimulatedEvent, at: datetime) -> Sequence[Row]:
    """Return PV2 with the reason of the admission, and when it is expected where it is planned."""
    stay = event.stay
    if stay is None or stay.patient_class not in {"P", "I"}:
        return ()
    reason = stay.diagnoses[0].split("^")[1]
    expected = stamp(event.sender, at + timedelta(days=1)) if stay.patient_class == "P" else ""
    return (row("PV2", {3: f"^{escaped(reason)}", 8: expected}),)


def obx(event: SimulatedEvent, at: datetime) -> Sequence[Row]:
    """Return OBX with height and weight, of visits where somebody was measured."""
    stay = event.stay
    if stay is None or stay.measures is None or event.trigger not in {"A01", "A04", "A08"}:
        return ()
    height, weight = stay.measures
    found = (("8302-2^BODY HEIGHT^LN", str(height), "cm"), ("29463-7^BODY WEIGHT^LN", str(weight), "kg"))
    return [
        row("OBX", {1: str(n), 2: "NM", 3: code, 5: value, 6: unit, 11: "F", 14: stamp(event.sender, at)})
        for n, (code, value, unit) in enumerate(found, 1)
    ]


def al1(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return AL1, one for each allergy."""
    return [
        row("AL1", {1: str(at), 2: words.ALLERGENS[each][0], 3: words.ALLERGENS[each][1], 5: words.ALLERGENS[each][2]})
        for at, each in enumerate(event.person.allergies, 1)
    ]


def iam(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return IAM, one for each allergy, with the action code that adds it."""
    found = [(str(at), *words.ALLERGENS[each]) for at, each in enumerate(event.person.allergies, 1)]
    return [row("IAM", {1: at, 2: kind, 3: code, 5: reaction, 6: "A"}) for at, kind, code, reaction in found]


def dg1(event: SimulatedEvent, at: datetime) -> Sequence[Row]:
    """Return DG1, one for each diagnosis of the stay; DG1-6 is final once it is over."""
    stay = event.stay
    if stay is None:
        return ()
    kind = "F" if stay.ended_at else "A" if len(stay.diagnoses) == 1 else "W"
    coded = "I10" if event.sender.release < 5 else ""
    return [
        row("DG1", {1: str(n), 2: coded, 3: each, 5: stamp(event.sender, at), 6: kind})
        for n, each in enumerate(stay.diagnoses, 1)
    ]


def pr1(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return PR1, one for each procedure of the stay."""
    stay = event.stay
    if stay is None:
        return ()
    sender = event.sender
    coded = "ICD10PCS" if sender.release < 5 else ""
    return [
        row("PR1", {1: str(n), 2: coded, 3: code, 5: stamp(sender, done), 6: "D" if n > 1 else "P"})
        for n, (code, done) in enumerate(stay.procedures, 1)
    ]


def gt1(event: SimulatedEvent, at: datetime) -> Sequence[Row]:
    """Return GT1: the patient, or of a child the first contact."""
    person, sender = event.person, event.sender
    if event.stay is None or not person.known or not person.policy:
        return ()
    fields = {1: "1", 3: f"{person.family}^{person.given}", 5: _address(person), 11: "SEL"}
    fields[6] = _telephone(sender, person.phone, "PRN")
    if person.child(at.date()) and person.contacts:
        first = person.contacts[0]
        fields |= {3: f"{first.family}^{first.given}", 6: _telephone(sender, first.phone, "PRN"), 11: "PAR"}
    return (row("GT1", fields),)


def in1(event: SimulatedEvent, _at: datetime) -> Sequence[Row]:
    """Return IN1 of the people who are insured."""
    person = event.person
    if event.stay is None or person.insurer is None or not person.known:
        return ()
    number, name, plan = words.INSURERS[person.insurer]
    insured = f"{person.family}^{person.given}"
    fields = {1: "1", 2: plan, 3: number, 4: escaped(name), 16: insured, 17: "CHD" if person.mother else "SEL"}
    return (row("IN1", fields | {36: person.policy}),)


def zpi(event: SimulatedEvent) -> Sequence[Row]:
    """Return ZPI, the site's own segment: language, and whether an interpreter is needed."""
    language = event.person.language
    return (row("ZPI", {1: "1", 2: language, 3: "N" if language == "EN" else "Y"}),) if language else ()


def _pid(event: SimulatedEvent, at: datetime) -> Sequence[Row]:
    return (pid(event, at),)


WRITERS: Final[Mapping[str, Callable[[SimulatedEvent, datetime], Sequence[Row]]]] = {
    "PID": _pid, "PD1": pd1, "NK1": nk1, "MRG": mrg, "PV1": pv1, "PV2": pv2, "OBX": obx, "AL1": al1, "IAM": iam,
    "DG1": dg1,     "PR1": pr1, "GT1": gt1, "IN1": in1,
}  # fmt: skip
"""What writes the segments of a name; none where nothing is to be said."""


def _known(person: SimulatedPerson, sender: SendingSystem) -> dict[int, str]:
    """Return what PID says of somebody whom it knows."""
    fields = {
        10: person.race if sender.release > 3 else person.race.split("^")[0],
        11: _address(person),
        13: _telephone(sender, person.phone, "PRN"),
        15: person.language,
        16: person.marital,
        17: person.religion,
    }
    if person.social_security and sender.release < 5:
        fields[19] = person.social_security.replace("-", "")
    return fields


def _numbers(event: SimulatedEvent, number: str, authority: str) -> str:
    person = event.person
    listed = [f"{number}^^^{authority}^MR"]
    if event.also:
        listed.append(f"{person.numbers[event.also]}^^^{event.also}^MR")
    if person.social_security and event.sender.release >= 5 and not (event.merged or event.other):
        listed.append(f"{person.social_security.replace('-', '')}^^^SSA^SS")
    return "~".join(listed)


def _names(person: SimulatedPerson, sender: SendingSystem) -> str:
    name = f"{person.family}^{person.given}^{person.second}^^^^L"
    if person.own_writing and sender.wide:
        family, given = person.own_writing
        return f"{name}^A~{family}^{given}^^^^^L^I"
    return name


def _mother(person: SimulatedPerson, authority: str) -> str:
    return f"{person.mother}^^^{authority}^MR"


def _address(person: SimulatedPerson) -> str:
    city = person.city
    return f"{person.street}^^{city.name}^{city.state}^{city.code}^USA^H^^{city.county}" if city else ""


def _telephone(sender: SendingSystem, phone: str, use: str) -> str:
    """Return a telephone number: in one piece up to 2.4, in its parts since, and both ways since 2.7."""
    if not phone:
        return ""
    area, local = phone[:3], phone[3:]
    if sender.release < 5:
        return f"({area}){local[:3]}-{local[3:]}^{use}^PH"
    parts = f"^{use}^PH^^1^{area}^{local}"
    return f"{parts}^^^^^+1 {area} {local[:3]} {local[3:]}" if sender.release >= 7 else parts


def _place(bed: Bed) -> str:
    place = f"{bed.point_of_care}^{bed.room}^{bed.bed}^{bed.facility}"
    return f"{place}^^N^{bed.building}" if bed.building else place


def _doctor(doctor: Doctor) -> str:
    return f"{doctor.number}^{doctor.family}^{doctor.given}^^^DR^MD^^RVB"


def _day(born: date | None) -> str:
    return f"{born:%Y%m%d}" if born else ""


def _died_at(event: SimulatedEvent, at: datetime) -> datetime:
    stay: Stay | None = event.stay
    return (stay.ended_at if stay else None) or at
