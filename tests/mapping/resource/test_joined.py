"""Numbers that several fields make: of a visit, of an account, and what MRG calls them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.fhir.plan import Identity, Keep
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import Mapping, compile_mapping, load

VISITS, ACCOUNTS = "https://visits.example", "https://accounts.example"
FILES = {
    "encounter": "keys: [{join: [PV1-19.1, PV1-3.4], type: VN}]\n  merged: [{join: [MRG-5.1, MRG-5.4], type: VN}]",
    "account": "keys: [{join: [PID-18.1, 'PV1-44 | utc-minute']}, PID-18]",
}


def _site(folder: Path, files: dict[str, str]) -> Mapping:
    (folder / "resources").mkdir()
    for name, identity in files.items():
        text = f"resource: {name.title()}\nextends: shipped/{name}\nidentity:\n  {identity}\n"
        (folder / f"resources/{name}.yaml").write_text(text, "utf-8")
    source = sending(load([folder, shipped("mappings")], "adt"), ("Encounter", "Account"))
    authorities = {"RVB": "https://mrn.example", "RVB^VN": VISITS, "RVB^AN": ACCOUNTS}
    return compile_mapping(source, channel_of({"authorities": authorities}))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping:
    """A mapping whose visits are told apart by number and facility, whose accounts by number and minute."""
    return _site(tmp_path_factory.mktemp("site"), FILES)


def _records(site: Mapping, event: str, number: str, facility: str, *more: str) -> dict[str, Keep]:
    head = f"MSH|^~\\&|REG|RVB|||20250701093000||ADT^{event}|1|P|2.5.1\rEVN||20250701093000"
    pid = "PID|1||RB-1^^^RVB||QUINTERO^MARISOL||19840229|F||||||||||ACC-1^^^RVB"
    pv1 = f"PV1|1|I|3W^312^A^{facility}" + "|" * 16 + number + "|" * 25 + "202507010915"
    plan = site.plan(parse("\r".join((head, pid, *more, pv1)).encode()))
    return {interaction.record.local: interaction for interaction in plan.interactions if isinstance(interaction, Keep)}


def test_a_number_of_two_fields(site: Mapping) -> None:
    """Both parts make the number, in the facility's system of the type; the identifier says so."""
    kept = _records(site, "A01", "12/07", "EAST")
    record = kept["encounter"].record
    assert record.identities == (Identity(VISITS, "12%2F07/EAST"),)
    (number,) = record.identifiers
    assert (number["system"], number["value"]) == (VISITS, "12%2F07/EAST")
    assert number["type"]["coding"][0]["code"] == "VN"
    account = kept["account"].record
    assert account.identities == (Identity(ACCOUNTS, "ACC-1/2025-07-01T09:15"), Identity(ACCOUNTS, "ACC-1"))


@pytest.mark.parametrize(("number", "facility"), [("", "EAST"), ("1207", ""), ('""', "EAST")])
def test_a_part_is_lacking(site: Mapping, number: str, facility: str) -> None:
    """Half a number is none: the visit goes by what comes next, here the account's."""
    record = _records(site, "A01", number, facility)["encounter"].record
    assert record.identities == (Identity(ACCOUNTS, "ACC-1"),)


def test_a_part_that_is_a_placeholder(site: Mapping) -> None:
    """A stand-in in one part stands for no visit, however the rest may differ."""
    record = _records(site, "A01", "0000", "EAST")["encounter"].record
    assert record.identities == (Identity(ACCOUNTS, "ACC-1"),)


def test_a_change_of_such_a_number(site: Mapping) -> None:
    """MRG's fields, joined in the same way, name the one that becomes an old number."""
    record = _records(site, "A50", "1207", "EAST", "MRG|RB-1^^^RVB||||1100^^^EAST")["encounter"].record
    assert (record.identities, record.retired) == ((Identity(VISITS, "1207/EAST"),), (Identity(VISITS, "1100/EAST"),))


part = st.text("A/%2F", min_size=1, max_size=4)


@given(part, part, part, part)
def test_two_numbers_are_never_written_alike(site: Mapping, one: str, here: str, other: str, there: str) -> None:
    """Different parts make different numbers, whatever stands in them."""
    first, second = (_records(site, "A01", *parts)["encounter"].record for parts in ((one, here), (other, there)))
    assert (first.identities == second.identities) == ((one, here) == (other, there))


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        ("keys: [{join: [PV1-19.1]}]", "join two fields or more"),
        ("keys: [{join: PV1-19}]", "join two fields or more"),
        ("keys: [{join: [PV1-19.1, PV1-3.4], typ: VN}]", "unknown key 'typ'; did you mean 'type'?"),
        ("keys: [{join: [PV1-19.1, PV1-99]}]", "PV1"),
        ("keys: [{join: ['VN', PV1-19.1]}]", "expected a field such as PV1-19"),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, identity: str, told: str) -> None:
    """What is wrong is named in the line where it stands, with what to write."""
    with pytest.raises(ConfigurationError) as raised:
        _site(tmp_path, {"encounter": identity})
    lines = [str(problem) for problem in raised.value.problems]
    assert any("encounter.yaml:4:" in line and told in line for line in lines), lines
