"""The playground over HTTP, as it is without scripts: what was typed comes back with its answer, and stays nowhere."""

import io
import re
import shutil
import zipfile
from collections.abc import AsyncIterator, Mapping
from html import unescape
from html.parser import HTMLParser

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.rig import channel_file, destination, running, write
from tests.ops.playground.bench_site import MESSAGE, PATIENT
from tests.ops.playground.bench_site import site as mapping_site
from tests.ops.web.conftest import DELIVERED, FEED, STATES, Site, start
from tests.ops.web.person import Person

EDITED = PATIENT.replace("PID-7", "EVN-2")
OPEN: Mapping[str, str] = {"message": MESSAGE, "path": "resources/patient.yaml", "text": EDITED}


class Fields(HTMLParser):
    """The fields of a page's form and their values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._area = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a hidden field, or begin an area."""
        given = dict(attrs)
        if tag == "input" and given.get("type") == "hidden":
            self.values[given["name"] or ""] = given.get("value") or ""
        elif tag == "textarea":
            self._area = given["name"] or ""
            self.values[self._area] = ""

    def handle_data(self, data: str) -> None:
        """Take the text of an area; its first line end is none of it."""
        if self._area:
            self.values[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        """End an area."""
        if tag == "textarea":
            self.values[self._area] = self.values[self._area].removeprefix("\n")
            self._area = ""


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine with mapping files of its own, and a few messages."""
    folder = tmp_path_factory.mktemp("playground")
    async with running(folder) as rig:
        mapping_site(folder / "mappings")
        rig.engine.arguments = (*rig.engine.arguments, "--mappings", "mappings")
        made = await start(rig)
        await send_messages(*await rig.address(), list(FEED))
        await rig.until(lambda rows: [row.state for row in rows] == [*STATES.values()])
        try:
            yield made
        finally:
            for person in made.people.values():
                await person.close()


@pytest.fixture
async def author(site: Site) -> Person:
    """Somebody who writes mappings and sees no patient, at the playground."""
    one = await site.person("author")
    await one.get("/playground")
    return one


async def test_a_message_comes_out_with_its_rules(author: Person) -> None:
    """Values are links to their rows, rows name rule, file and line; the page has nothing in its address."""
    answer = await author.post("/playground/try", {"message": MESSAGE, "channel": "riverbend-adt"})
    assert answer.status_code == 200
    page = unescape(answer.text)
    row = page.split('"1984-02-29"</a>')[0].rsplit('href="#', 1)[1].split('"')[0]
    assert "resources/patient.yaml:4" in page.split(f'<tr id="{row}"')[1].split("</tr>")[0]
    assert Fields(author.page).values["message"] == MESSAGE


async def test_the_filter_of_the_channel_is_told(site: Site, author: Person) -> None:
    """By its name, with what it does: of one channel of two, the one that was chosen."""
    folder = site.rig.folder / "channels"
    filters = [
        {"rule": "test-patients", "when": "PID-5.1 starts-with ZZ", "do": "filter"},
        {"rule": "no-sex", "when": "not PID-8", "do": "refuse"},
        {"rule": "to-the-service", "when": "PID-8", "send_to": ["interchange"]},
    ]
    file = channel_file(site.rig.proxy.url) | {"channel": "filtering", "filters": filters}
    write(folder / "filtering.yaml", file)
    await site.act("reload")
    try:
        for old, new, words in (
            ("Quintero", "ZZ", "<b>test-patients</b> accepts it and sends it nowhere."),
            ("|F|", "||", "<b>no-sex</b> refuses it (AR 207)."),
            ("C1", "C2", "<b>to-the-service</b> sends it to interchange only."),
        ):
            given = {"message": MESSAGE.replace(old, new), "channel": "filtering"}
            assert words in unescape((await author.post("/playground/try", given)).text)
            answer = await author.post("/playground/try", given | {"channel": "riverbend-adt"})
            assert "The channel's filter" not in unescape(answer.text)
    finally:
        (folder / "filtering.yaml").unlink()
        await site.act("reload")


async def test_a_mapping_of_a_destination_is_chosen(site: Site, author: Person) -> None:
    """Where a destination has one: here, where each value came from, and named on the page of channels."""
    assert "By the mapping of" not in author.page
    folder, (file,) = site.rig.folder / "mappings", (site.rig.folder / "channels").glob("*.yaml")
    before = file.read_text()
    both = [destination(site.rig.proxy.url), destination(site.rig.proxy.url, name="index", mapping="index")]
    write(file, channel_file(site.rig.proxy.url) | {"destinations": both})
    (folder / "index" / "resources").mkdir(parents=True)
    (folder / "index.yaml").write_text("mapping: index\nextends: shipped/adt\nresources: [Patient]\n")
    own = folder / "index" / "resources" / "patient.yaml"
    own.write_text("resource: Patient\nextends: shipped/patient\nelements:\n  gender:\n")
    await site.act("reload")
    try:
        await author.get("/playground")
        assert '<option value="index">riverbend-adt: index (index)</option>' in author.page
        given = {"message": MESSAGE, "channel": "riverbend-adt"}
        assert '"female"' in unescape((await author.post("/playground/try", given)).text)
        fields = {**given, "destination": "index"}
        assert '"female"' not in unescape((await author.post("/playground/try", fields)).text)
        own.write_text(own.read_text().replace("gender", "birthDate"))
        answer = unescape((await author.post("/playground/try", fields)).text)
        assert ('"female"' in answer, '"1984-02-29"' in answer) == (True, False)
        await author.post("/playground/open", {**fields, "wanted": "index/resources/patient.yaml"})
        assert Fields(author.page).values["text"] == own.read_text()
        one = await site.person("operator")
        page = (await one.get(f"/messages/{DELIVERED}/explain")).text
        assert "<b>adt</b> of the channel" in page
        assert f'<a href="/messages/{DELIVERED}/explain?destination=index">index</a> (index)' in page
        assert '<td data-label="Element" class="mono">Patient.birthDate</td>' in page
        page = (await one.get(f"/messages/{DELIVERED}/explain?destination=index")).text
        assert "<b>index</b> of the destination index" in page
        assert '<td data-label="Element" class="mono">Patient.birthDate</td>' not in page
        answer = await one.post(f"/messages/{DELIVERED}/explain", {"words": "gender", "destination": "index"})
        assert answer.headers["location"].startswith(f"/messages/{DELIVERED}/explain?destination=index&filter=")
        assert "Mapping adt; for index index" in (await one.get("/channels")).text
    finally:
        file.write_text(before)
        (folder / "index.yaml").unlink()
        shutil.rmtree(folder / "index")
        await site.act("reload")


async def test_an_edit_is_carried_by_the_page_alone(site: Site, author: Person) -> None:
    """Opened, edited, another file opened, tried: the edit comes along; the file on the disk is as it was."""
    await author.post("/playground/open", {"wanted": "resources/patient.yaml"})
    assert Fields(author.page).values["text"] == PATIENT
    await author.post("/playground/open", {**OPEN, "wanted": "shipped/adt.yaml"})
    fields = Fields(author.page).values
    assert (fields["edit:resources/patient.yaml"], fields["path"]) == (EDITED, "shipped/adt.yaml")
    answer = await author.post("/playground/try", fields)
    assert '"2025-07-01"' in unescape(answer.text)
    assert (site.rig.folder / "mappings/resources/patient.yaml").read_text() == PATIENT
    await author.get("/playground")
    assert "EVN-2" not in author.page
    await author.post("/playground/forget", {**OPEN, "edit:tables/x.yaml": "y"})
    fields = Fields(author.page).values
    assert (fields["text"], fields["edit:tables/x.yaml"]) == (PATIENT, "y")


async def test_line_ends_of_a_browser_are_no_edit(author: Person) -> None:
    """What comes back with CR LF is the file as it is."""
    await author.post("/playground/open", {**OPEN, "text": PATIENT.replace("\n", "\r\n"), "wanted": "shipped/adt.yaml"})
    assert "edit:resources/patient.yaml" not in Fields(author.page).values


@pytest.mark.parametrize(
    ("shipped", "begins"),
    [
        ("shipped/resources/encounter.yaml", "resource: Encounter\nextends: shipped/resources/encounter\n"),
        ("shipped/datatypes/xpn.yaml", "datatype: XPN\nextends: shipped/datatypes/xpn\n"),
        ("shipped/tables/race.yaml", "table: race\nextends: shipped/tables/race\n"),
        ("shipped/oru.yaml", "mapping: oru\nextends: shipped/oru\n"),
    ],
)
async def test_a_file_of_ones_own_begins_with_what_it_extends(author: Person, shipped: str, begins: str) -> None:
    """It has no problem, and changes nothing yet."""
    await author.post("/playground/own", {"path": shipped})
    fields = Fields(author.page).values
    assert (fields["path"], fields["text"]) == (shipped.removeprefix("shipped/"), begins)
    answer = await author.post("/playground/check", fields)
    assert answer.json() == []


async def test_mistakes_are_told_at_their_lines(author: Person) -> None:
    """For the editor as JSON, on the page as links to the place."""
    broken = {**OPEN, "text": PATIENT + "  brithDate: PID-7\n"}
    (problem,) = (await author.post("/playground/check", broken)).json()
    assert (problem["file"], problem["line"], problem["column"]) == ("resources/patient.yaml", 5, 3)
    answer = await author.post("/playground/try", broken)
    assert "resources/patient.yaml:5:3" in answer.text


async def test_cases_run_on_the_edits(author: Person) -> None:
    """The site's case holds, and differs once the edit breaks it; the difference says how."""
    answer = await author.post("/playground/test", {**OPEN, "text": PATIENT})
    assert "1 cases, 0 differ" in answer.text
    assert "lost" not in answer.text
    assert re.search(r"\d+ shipped cases, 0 change with the site", answer.text)
    answer = await author.post("/playground/test", OPEN)
    assert "1 cases, 1 differs" in answer.text
    assert "tests/born.yaml:2" in answer.text


async def test_what_is_lost_is_told_beside_the_cases(author: Person) -> None:
    """Elements that the files in force make of the messages of all cases, and the edit does not."""
    answer = await author.post("/playground/test", {**OPEN, "text": PATIENT + "  gender:\n"})
    assert "1 cases, 0 differ" in answer.text
    assert "Patient.gender" in answer.text
    assert re.search(r"elements? lost", answer.text)
    assert re.search(r"\d+ shipped cases, [1-9]\d* change with the site", answer.text)


async def test_a_case_reads_no_file_elsewhere(author: Person) -> None:
    """A message of a file outside the mapping folder is a problem, with its line."""
    case = "tests:\n  - case: x\n    file: ../../data/journal.db\n    expect: {rule: x}\n"
    answer = await author.post("/playground/test", {"path": "tests/mine.yaml", "text": case})
    assert "tests/mine.yaml:3" in answer.text
    assert "a file elsewhere" in answer.text


async def test_recent_messages_are_compared_for_whom_may_see_them(site: Site, author: Person) -> None:
    """An operator sees what changes, with an example, which is recorded; an author neither the button nor an answer."""
    operator = await site.person("operator")
    await operator.get("/playground")
    answer = await operator.post("/playground/compare", {**OPEN, "limit": "50"})
    page = unescape(answer.text)
    assert "Patient.birthDate" in page
    assert 'href="/messages/' in page.split("Patient.birthDate")[1]
    assert "/playground/compare" not in author.page
    refused = await author.post("/playground/compare", OPEN)
    assert refused.status_code == 403
    rows = [row for row in await site.act("audit.list", limit=100) if row["act"] == "mappings.compare"]
    assert [row["detail"]["edited"] for row in rows] == [["resources/patient.yaml"]]
    assert "EVN-2" not in str(rows)


async def test_a_message_of_the_journal_is_for_whom_may_see_it(site: Site, author: Person) -> None:
    """An operator finds it in the field, from a link on its page; an author is refused."""
    operator = await site.person("operator")
    await operator.get("/messages/1")
    assert 'href="/playground?entry=1"' in operator.page
    await operator.get("/playground?entry=1")
    assert "RB-1^^^RVB^MR" in Fields(operator.page).values["message"]
    assert (await author.get("/playground?entry=1")).status_code == 403
    assert "/playground" not in (await author.get("/messages/1")).text.split("<main")[1]


async def test_edited_files_are_downloaded(author: Person) -> None:
    """One as it is, several with their folders; none is a line that says so."""
    one = await author.post("/playground/download", OPEN)
    assert (one.text, one.headers["content-disposition"]) == (EDITED, 'attachment; filename="patient.yaml"')
    two = await author.post("/playground/download", {**OPEN, "edit:tables/x.yaml": "table: x\n"})
    with zipfile.ZipFile(io.BytesIO(two.content)) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    assert found == {"resources/patient.yaml": EDITED, "tables/x.yaml": "table: x\n"}
    assert (await author.post("/playground/download", {"message": MESSAGE})).status_code == 422


async def test_what_cannot_be_tried_leaves_all_that_was_typed(author: Person) -> None:
    """422 with why not, and the form as it was; a script gets the line alone."""
    answer = await author.post("/playground/try", {**OPEN, "message": "", "edit:tables/x.yaml": "y"})
    assert answer.status_code == 422
    assert "paste one" in answer.text
    assert Fields(author.page).values["edit:tables/x.yaml"] == "y"
    page = author.page
    part = await author.post("/playground/try", {**OPEN, "message": ""}, **{"hx-request": "true"})
    author.page = page
    assert part.text.startswith('<p class="notice bad"')


@pytest.mark.parametrize("path", ["../x.yaml", "shipped/../../etc/passwd", "x.txt", "/etc/passwd"])
async def test_no_other_file_is_opened(author: Person, path: str) -> None:
    """Whatever is named, nothing outside the mapping folders is read."""
    assert (await author.post("/playground/open", {"wanted": path})).status_code == 422
    await author.get("/playground")


async def test_the_editor_is_answered_at_its_cursor(author: Person) -> None:
    """Completion, the text of a function with the value of the message of the page, and the shipped rule."""
    await author.get("/playground")
    cursor = {**OPEN, "text": PATIENT + "  maritalStatus: PID-16 | cod", "line": "5", "column": "29"}
    made = (await author.post("/playground/complete", cursor)).json()
    assert (made["start"], made["end"]) == (27, 30)
    coded = next(one for one in made["items"] if one["label"] == "coded")
    assert coded["detail"] == "coded([TABLE])"
    word = {**OPEN, "text": PATIENT, "line": "4", "column": "24"}
    said = (await author.post("/playground/word", word)).json()
    assert said["text"].startswith("`PATH | date -> date`")
    assert "- PID-7 `19840229` → Patient.birthDate `1984-02-29`" in said["text"]
    assert said["file"] == "shipped/resources/patient.yaml"
    assert said["line"] > 1
    nobody = await author.post("/playground/complete", {**cursor, "path": "../x.yaml"})
    assert nobody.status_code == 422


async def test_an_operator_shares_a_message_with_authors(site: Site, author: Person) -> None:
    """De-identified: an author tries it, and nothing of the patient is in it; who shared which entry is recorded."""
    operator = await site.person("operator")
    assert (await author.post("/messages/1/share", {})).status_code == 403
    await operator.get("/messages/1")
    assert "Share with authors" in operator.page
    entry = Fields((await operator.get("/playground?entry=1")).text).values["message"]
    done = await operator.post("/messages/1/share", {})
    assert done.status_code == 303, done.text
    await author.get("/playground")
    assert "Shared messages" in author.page
    await author.get("/playground?shared=1")
    assert "<textarea" in author.page, author.page[-1500:]
    copy = Fields(author.page).values["message"]
    pid, original = (next(line for line in text.split("\n") if line.startswith("PID")) for text in (copy, entry))
    assert copy.split("\n")[0].split("|")[8] == entry.split("\n")[0].split("|")[8]
    assert pid.count("|") == original.count("|")
    for field in (3, 5, 7):
        value = original.split("|")[field].split("^")[0]
        assert value
        assert value not in author.page
    tried = await author.post("/playground/try", {"message": copy})
    assert "Patient" in tried.text
    assert "/playground/shared/1/delete" not in author.page
    assert (await author.post("/playground/shared/1/delete", {})).status_code == 403
    await operator.get("/playground")
    assert (await operator.post("/playground/shared/1/delete", {})).status_code == 303
    assert (await author.get("/playground?shared=1")).status_code == 404
    rows = {row["act"]: row for row in await site.act("audit.list", limit=100) if row["outcome"] == "asked"}
    assert rows["messages.share"]["entry"] == 1
    assert rows["messages.unshare"]["actor"] == rows["messages.share"]["actor"]
