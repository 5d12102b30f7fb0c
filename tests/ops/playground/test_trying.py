"""One message through edited mapping files: the plan, and behind each value its rule, line and field."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.config.channel import Channel
from engine.mapping.authoring.case import channel_of
from engine.ops.playground.bench import Bench, BenchRequest
from engine.ops.playground.site import asked_of
from engine.ops.playground.trying import MOST_ELEMENTS, tried
from engine.ops.playground.worker import answer
from engine.ops.views.playground import Tried
from tests.ops.playground.bench_site import MESSAGE, PATIENT, asked, site


def _tried(folder: Path | None, edited: dict[str, str] | None = None, text: str = MESSAGE, bench: Any = None) -> Tried:
    return Tried.model_validate(tried(bench or Bench(), BenchRequest.of(asked(folder, edited)), text))


def _line(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def test_each_value_leads_to_its_rule_and_its_field(tmp_path: Path) -> None:
    """The birth date by the site's file and line; the family name of the second repetition by the shipped one."""
    made = _tried(site(tmp_path))
    (patient,) = made.plan
    assert patient.resource["birthDate"] == "1984-02-29"
    born = made.elements[patient.origins["birthDate"]]
    assert (born.file, born.line) == ("resources/patient.yaml", _line(PATIENT, "birthDate"))
    assert (born.source, born.segment, born.raw, born.rule) == ("PID-7", 1, "19840229", "PID-7 | date")
    nickname = made.elements[patient.origins["name[1].family"]]
    assert (nickname.file, nickname.source, nickname.raw) == ("shipped/datatypes/xpn.yaml", "PID-5(2).1", "Quint")
    gender = made.elements[patient.origins["gender"]]
    assert [row.split(":")[1] for row in gender.rows] == [" shipped/tables/administrative-sex.yaml"]


def test_every_value_that_a_message_fills_is_led_somewhere(tmp_path: Path) -> None:
    """What is tried most: nothing of a Patient is without a rule."""
    (patient,) = _tried(site(tmp_path)).plan
    text = orjson.dumps(patient.resource).decode()
    for value in ("Marisol", "Quintero", "5 Towpath", "Riverbend", "100001"):
        assert f'"{value}"' in text
    assert {
        "identifier[0].value",
        "name[0].given[0]",
        "address[0].line[0]",
        "address[0].city",
    } <= patient.origins.keys()


def test_the_message_is_taken_apart_and_what_nobody_reads_is_told(tmp_path: Path) -> None:
    """Segments with the standard's names; a Z segment that no rule reads."""
    made = _tried(site(tmp_path))
    assert [(one.name, one.number) for one in made.segments] == [("MSH", 1), ("EVN", 1), ("PID", 1), ("ZPI", 1)]
    assert "ZPI-2" in [one.path for one in made.unread]
    assert (made.event, made.action, made.file) == ("A28", "deliver", "shipped/adt.yaml")


def test_an_edit_takes_the_place_of_its_file(tmp_path: Path) -> None:
    """The plan is the edit's, the file on the disk is as it was; without the edit all is as before."""
    folder, bench = site(tmp_path), Bench()
    edited = PATIENT.replace("PID-7 | date", "EVN-2 | date")
    made = _tried(folder, {"resources/patient.yaml": edited}, bench=bench)
    assert made.plan[0].resource["birthDate"] == "2025-07-01"
    assert (folder / "resources/patient.yaml").read_text() == PATIENT
    assert _tried(folder, bench=bench).plan[0].resource["birthDate"] == "1984-02-29"


FILTERS: list[dict[str, Any]] = [
    {"rule": "test-patients", "when": "PID-5.1 = ZZTEST", "do": "filter"},
    {"rule": "no-sex", "when": "not PID-8", "do": "refuse"},
    {"rule": "to-the-wards", "when": "event in (A28, A40)", "send_to": ["wards"]},
]


@pytest.mark.parametrize(
    ("old", "new", "action", "rule", "does", "send_to"),
    [
        pytest.param("Quintero", "ZZTEST", "filter", "test-patients", "filter", (), id="filter"),
        pytest.param("|F|", "||", "refuse", "no-sex", "refuse", (), id="refuse"),
        pytest.param("C1", "C2", "deliver", "add-person", "send", ("wards",), id="send"),
    ],
)
def test_a_filter_of_the_channel(
    tmp_path: Path, old: str, new: str, action: str, rule: str, does: str, send_to: tuple[str, ...]
) -> None:
    """Its name and what it does; where it ends a message, there is no plan, and no mapping file to open."""
    on = channel_of({"authorities": {"RVB": "https://mrn.riverbend.example"}, "filters": FILTERS})
    question = BenchRequest.of(asked_of(site(tmp_path), on, {}))
    made = Tried.model_validate(tried(Bench(), question, MESSAGE.replace(old, new)))
    assert (made.action, made.rule) == (action, rule)
    assert made.filter is not None
    assert (made.filter.does, made.filter.send_to, made.filter.where_known) == (does, send_to, False)
    assert made.filter.rule == (rule if action != "deliver" else "to-the-wards")
    assert (bool(made.plan), bool(made.file)) == (action == "deliver", action == "deliver")


def test_a_merge_goes_wherever_a_patient_is_known(tmp_path: Path) -> None:
    """A filter that sends it to some says that; a message that no filter holds for has none."""
    on = channel_of({"authorities": {"RVB": "https://mrn.riverbend.example"}, "filters": FILTERS})
    merge = MESSAGE.replace("A28^ADT_A05", "A40^ADT_A39") + "MRG|100002^^^RVB\n"
    made = Tried.model_validate(tried(Bench(), BenchRequest.of(asked_of(site(tmp_path), on, {})), merge))
    assert made.filter is not None
    assert made.filter.where_known
    other = MESSAGE.replace("A28^ADT_A05", "A31^ADT_A05")
    assert Tried.model_validate(tried(Bench(), BenchRequest.of(asked_of(site(tmp_path), on, {})), other)).filter is None


def test_a_channel_that_may_not_merge_is_tried_as_such(tmp_path: Path) -> None:
    """`allow_merge` is off where a channel's file does not name it, and so it is in the playground."""
    on = channel_of({"allow_merge": False, "authorities": {"RVB": "https://mrn.riverbend.example"}})
    unset = Channel.model_validate(on.model_dump(by_alias=True, exclude={"allow_merge"}))
    merge = MESSAGE.replace("A28^ADT_A05", "A40^ADT_A39") + "MRG|100002^^^RVB\n"
    made = Tried.model_validate(tried(Bench(), BenchRequest.of(asked_of(site(tmp_path), unset, {})), merge))
    assert (made.action, made.findings, made.plan) == ("refuse", ("201 merge-not-allowed MSH-9.2",), ())


def test_a_filter_of_the_event_file_stands_there(tmp_path: Path) -> None:
    """It is told as before, by its file and line."""
    events = "mapping: adt\nextends: shipped/adt\nfilters:\n  - {rule: tests, when: PID-8 = F, do: filter}\n"
    made = _tried(site(tmp_path), {"adt.yaml": events})
    assert (made.rule, made.file, made.line, made.filter) == ("tests", "adt.yaml", 4, None)


def test_a_file_that_is_not_there_yet_counts(tmp_path: Path) -> None:
    """A new table and the rule that uses it, both only typed; also where there is no site at all."""
    for folder in (site(tmp_path), None):
        rule = PATIENT.replace("birthDate: PID-7 | date", "gender: PID-8 | code(mine)")
        table = "table: mine\nsource: ours\nlicence: ours\nsystem: http://example.org/sex\ncodes: {F: other}\n"
        made = _tried(folder, {"resources/patient.yaml": rule, "tables/mine.yaml": table})
        assert made.problems == ()
        assert made.plan[0].resource["gender"] == "other"


def test_a_broken_mapping_shows_its_errors_at_their_lines(tmp_path: Path) -> None:
    """Every mistake with file, line and column; the message's segments all the same, and no plan."""
    broken = PATIENT + "  brithDate: PID-7\n  gender: PID-8 | cod(administrative-sex)\n"
    made = _tried(site(tmp_path), {"resources/patient.yaml": broken})
    found = {(problem.file, problem.line) for problem in made.problems}
    assert found == {("resources/patient.yaml", _line(broken, word)) for word in ("brithDate", "gender")}
    assert all(problem.column > 1 and problem.expected for problem in made.problems)
    assert made.plan == ()
    assert made.segments


def test_what_is_no_yaml_says_where(tmp_path: Path) -> None:
    """One problem at the line of the open bracket's end."""
    (problem,) = _tried(site(tmp_path), {"resources/patient.yaml": "resource: Patient\nelements: {a: [}\n"}).problems
    assert (problem.file, problem.line) == ("resources/patient.yaml", 2)


def test_a_file_written_meanwhile_is_read_again(tmp_path: Path) -> None:
    """What the bench keeps is good for as long as the files are as they were."""
    folder, bench = site(tmp_path), Bench()
    _tried(folder, bench=bench)
    (folder / "resources/patient.yaml").write_text(PATIENT.replace("PID-7", "EVN-2  "), "utf-8")
    assert _tried(folder, bench=bench).plan[0].resource["birthDate"] == "2025-07-01"


def test_a_compiled_mapping_tells_of_every_message_alike(tmp_path: Path) -> None:
    """The same elements for the same message, however often it is tried: nothing is remembered from one to the next."""
    folder, bench = site(tmp_path), Bench()
    made = [_tried(folder, bench=bench) for _ in range(4)]
    assert all(one == made[0] for one in made)


def test_what_is_no_message_says_so(tmp_path: Path) -> None:
    """Without an MSH there is an error, no plan, and no problem of the files."""
    made = _tried(site(tmp_path), text="PID|1||5\n")
    assert made.error
    assert (made.plan, made.problems) == ((), ())


def test_a_message_of_many_observations_is_bounded(tmp_path: Path) -> None:
    """No more elements than a page can show, and how many more there are."""
    results = "".join(f"OBX|{n}|NM|{n}^x^L||{n}|mg||||F\n" for n in range(1, 400))
    header = MESSAGE.splitlines()[0].replace("ADT^A28^ADT_A05", "ORU^R01^ORU_R01")
    text = f"{header}\n{MESSAGE.splitlines()[2]}\nOBR|1|A1|B1|24323-8^x^LN|||20250701\n{results}"
    asked_for = BenchRequest.of({**asked(site(tmp_path)), "mapping": "oru"})
    made = Tried.model_validate(tried(Bench(), asked_for, text))
    assert len(made.elements) == MOST_ELEMENTS
    assert made.more > 0
    assert all(place < MOST_ELEMENTS for one in made.plan for place in one.origins.values())


@pytest.mark.parametrize("do", ["try", "no such thing"])
def test_a_fault_of_ours_is_told_by_its_place_alone(tmp_path: Path, do: str) -> None:
    """Neither the message nor the text of the error is in the answer."""
    question = asked(site(tmp_path), do=do)  # without a message
    found = answer(Bench(), orjson.dumps(question))
    assert set(found) == {"failed"}
    assert found["failed"].startswith("KeyError at worker:")
