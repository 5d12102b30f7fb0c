"""The page Sites with real engines: each shown, one killed, one with a wrong token, one of an unknown authority."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import trustme
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from engine.config.sites import SiteSettings
from engine.ops.operations.table import ALL
from engine.ops.socket import client
from tests.chromium import CHROMIUM
from tests.flow.program import Program
from tests.flow.rig import free_port
from tests.interchange.nursery import ran
from tests.ops.alone import alone, write_channel
from tests.ops.sites.scripted import NOON, TOKEN, alert, scripted
from tests.ops.web.person import PASSWORD, Person
from tests.ops.web.test_browser import TOO_WIDE, VIOLATIONS

pytestmark = pytest.mark.process

LIVE: Final = 120.0


async def act(folder: Path, name: str, /, **given: Any) -> Any:
    """Do an operation over an engine's admin socket."""
    operation = next(one for one in ALL if one.name == name)
    answer = await asyncio.to_thread(client.ask, folder / "data", operation, given)
    return operation.to_json(answer)


class Sites:
    """Three engines: `home` has the page, with `north` and `south` as its sites; both are asked over TLS."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"north": free_port(), "south": free_port()}
        self.programs: dict[str, Program] = {}
        self.tokens: dict[str, str] = {}
        self.people: dict[str, Person] = {}
        self.authority = trustme.CA()

    def options(self, name: str) -> tuple[str, ...]:
        """Write a certificate of the authority and return the options of an engine's pages."""
        issued = self.authority.issue_cert("127.0.0.1")
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        address = f"127.0.0.1:{self.ports[name]}"
        return ("--admin", address, "--admin-certificate", str(certificate), "--admin-key", str(key))

    def write(self, *more: SiteSettings, **changed: Any) -> None:
        """Write home's sites.yaml; `more` are scripted sites, `changed` keys of single ones by name."""
        self.authority.cert_pem.write_to_path(str(self.folder / "authority.pem"))
        file = self.folder / "scripted.token"
        file.write_text(TOKEN)
        file.chmod(0o600)
        rows: list[dict[str, Any]] = [
            {"name": site.name, "url": site.url, "token": {"file": str(file)}} for site in more
        ]
        for name, port in self.ports.items():
            file = self.folder / f"{name}.token"
            file.write_text(self.tokens[name])
            file.chmod(0o600)
            rows.append(
                {
                    "name": name.title(),
                    "url": f"https://127.0.0.1:{port}",
                    "token": {"file": str(file)},
                    "ca_file": str(self.folder / "authority.pem"),
                }
                | changed.get(name, {})
            )
        write_channel(self.folder / "home", orjson.dumps({"sites": rows, "refresh_seconds": 5}).decode(), "sites.yaml")

    async def person(self, role: str) -> Person:
        """Return somebody of a role who is logged in at home."""
        if role in self.people:
            return self.people[role]
        person = Person((await self.programs["home"].line("pages listening"))["port"])
        invited = await act(self.folder / "home", "users.add", name=role, role=role)
        answer = await person.set_up(invited["token"], role)
        assert answer.status_code == 303
        self.people[role] = person
        return person

    @property
    def answered(self) -> tuple[str, ...]:
        """What the page says where both sites have answered."""
        return tuple(f"https://127.0.0.1:{port}/lanes" for port in self.ports.values())

    def said(self) -> str:
        """Return all that the engines wrote."""
        return "".join(b"".join(program.said).decode() for program in self.programs.values())


@pytest.fixture(scope="module")
async def sites(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sites]:
    """Three running engines."""
    made = Sites(tmp_path_factory.mktemp("sites"))
    async with contextlib.AsyncExitStack() as stack:
        for name in ("north", "south", "home"):
            folder = made.folder / name
            folder.mkdir()
            if name == "home":
                made.write()
            options = made.options(name) if name != "home" else ()
            made.programs[name] = await stack.enter_async_context(alone(folder, *options))
            if name != "home":
                issued = await act(folder, "tokens.add", name="home", role="viewer", channels=[], days=1)
                made.tokens[name] = issued["token"]
        yield made
        await asyncio.gather(*(person.close() for person in made.people.values()))


async def until(person: Person, *wanted: str) -> str:
    """Follow the live page until it says all that is wanted, and return what it says then."""
    parts, part = {"now": "", "sites": ""}, ""
    try:
        async with asyncio.timeout(LIVE), person.http.stream("GET", "/live/sites") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    part = line.removeprefix("event: ")
                    parts[part] = ""
                elif line.startswith("data:"):
                    parts[part] += line.removeprefix("data:") + "\n"
                heard = "".join(parts.values())
                if not line and all(words in heard for words in wanted):
                    return heard
    except TimeoutError:
        raise AssertionError(f"the page never says {wanted}: {parts}") from None
    raise AssertionError(f"the stream ended: {parts}")


async def reload(sites: Sites, *more: SiteSettings, **changed: Any) -> None:
    """Write home's sites.yaml anew and put it in force."""
    sites.write(*more, **changed)
    await act(sites.folder / "home", "reload")


async def test_both_are_shown_with_state_version_and_links(sites: Sites) -> None:
    """Somebody who may see metadata: the strip of each, its cause, links to its own pages; Sites is in the menu."""
    person = await sites.person("viewer")
    shown = await until(person, *sites.answered)
    for name, port in sites.ports.items():
        assert f'<a href="https://127.0.0.1:{port}/overview" rel="noreferrer"><bdi>{name.title()}</bdi></a>' in shown
    assert "Versions differ" not in shown
    page = await person.get("/sites")
    assert page.status_code == 200
    assert '<a href="/sites" aria-current="page">Sites' in page.text
    assert 'data-key="i"' in page.text
    again = await person.get("/overview")
    assert '<a href="/sites">Sites' in again.text


async def test_one_that_is_killed_is_said_first_with_why_and_since(sites: Sites) -> None:
    """And is over when it answers again; the other one is shown all the while."""
    person = await sites.person("viewer")
    await until(person, *sites.answered)
    await sites.programs["south"].kill()
    shown = await until(person, "<bdi>South</bdi> does not answer</b>")
    first, _, rest = shown.partition("</section>")
    assert "connection refused" in first
    assert ", since <time" in first
    assert ", last answer <time" in first
    assert "<bdi>North</bdi>" in rest
    await sites.programs["south"].start()
    shown = await until(person, *sites.answered)
    assert "does not answer</b>" not in shown


async def test_a_wrong_token_says_what_to_do(sites: Sites) -> None:
    """After a reload of home's file."""
    wrong = sites.folder / "wrong.token"
    wrong.write_text("adt_of_nobody")
    wrong.chmod(0o600)
    await reload(sites, north={"token": {"file": str(wrong)}})
    shown = await until(await sites.person("viewer"), "<bdi>North</bdi> refuses the token</b>")
    assert "adt-engine users token add NAME --role viewer" in shown
    assert "no answer yet" in shown
    assert "adt_of_nobody" not in shown + sites.said()
    await reload(sites)


async def test_a_token_of_a_role_that_may_not_says_what_to_do(sites: Sites) -> None:
    """A sender's token sends messages and sees nothing."""
    file = sites.folder / "sender.token"
    issued = await act(sites.folder / "north", "tokens.add", name="sender", role="sender", channels=[], days=1)
    file.write_text(issued["token"])
    file.chmod(0o600)
    await reload(sites, north={"token": {"file": str(file)}})
    shown = await until(await sites.person("viewer"), "<bdi>North</bdi> forbids what is asked</b>")
    assert "role viewer without --channel" in shown
    await reload(sites)


async def test_a_certificate_of_another_authority_is_not_trusted(sites: Sites) -> None:
    """Nothing is sent, and what to do is said."""
    other = sites.folder / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    await reload(sites, north={"ca_file": str(other)})
    shown = await until(await sites.person("viewer"), "<bdi>North</bdi> is not trusted</b>")
    assert "name its authority in <code>ca_file</code>" in shown
    await reload(sites)
    await until(await sites.person("viewer"), *sites.answered)


async def test_a_file_that_is_wrong_is_refused_as_a_whole(sites: Sites) -> None:
    """A reload leaves all as it was; the check says it with its place."""
    sites.write(north={"url": "http://adt.north.example"})
    done = await asyncio.to_thread(ran, "channels", "check", folder=sites.folder / "home")
    assert (done.returncode, "sites.0.url" in done.stderr) == (2, True)
    with pytest.raises(Exception, match=r"sites\.0\.url"):
        await act(sites.folder / "home", "reload")
    sites.write()
    assert "North" in (await (await sites.person("viewer")).get("/sites")).text


@pytest.mark.parametrize(("role", "status"), [("auditor", 403), ("operator", 200), ("admin", 200)])
async def test_metadata_is_what_a_role_needs(sites: Sites, role: str, status: int) -> None:
    """Who sees no metadata of this engine sees none of another."""
    person = await sites.person(role)
    page = await person.get("/sites")
    assert page.status_code == status
    assert ('href="/sites"' in page.text) is (status == 200)


async def test_the_terminal_asks_them_itself(sites: Sites) -> None:
    """As a table and as JSON; exit 1 where an engine cannot be asked."""
    home = sites.folder / "home"
    table = await asyncio.to_thread(ran, "sites", "list", folder=home)
    names = [line.split("\t")[0] for line in table.stdout.splitlines()]
    assert sorted(names) == ["North", "Site", "South"]
    found = await asyncio.to_thread(ran, "sites", "list", "--json", folder=home)
    shown = orjson.loads(found.stdout)
    assert {site["name"]: site["fault"] for site in shown["sites"]} == {"North": None, "South": None}
    assert (found.returncode, table.returncode) == (int(shown["worst"] == "bad"),) * 2
    sites.write(south={"url": f"http://127.0.0.1:{free_port()}"})
    gone = await asyncio.to_thread(ran, "sites", "list", "--json", folder=home)
    shown = orjson.loads(gone.stdout)
    assert (gone.returncode, shown["worst"]) == (1, "bad")
    assert next((site["name"], site["state"]) for site in shown["sites"]) == ("South", "does not answer")
    sites.write()
    for text in (table.stdout + table.stderr, found.stdout + found.stderr, gone.stdout + gone.stderr):
        assert not any(token in text for token in sites.tokens.values())


async def test_no_token_is_in_a_log_or_on_a_page(sites: Sites) -> None:
    """Nor in a file of the engine that asks, after both were asked."""
    person = await sites.person("viewer")
    await until(person, *sites.answered)
    texts = [sites.said(), (await person.get("/sites")).text]
    kept = (sites.folder / "home" / "data").rglob("*")
    texts += [file.read_bytes().decode("latin-1") for file in kept if file.is_file()]
    for token in sites.tokens.values():
        assert not any(token in text for text in texts)


async def test_without_sites_there_is_no_entry_in_the_menu(tmp_path: Path) -> None:
    """The page itself says how they are configured; the terminal says it too."""
    async with alone(tmp_path) as program:
        person = Person((await program.line("pages listening"))["port"])
        invited = await act(tmp_path, "users.add", name="ann", role="viewer")
        await person.set_up(invited["token"], "ann")
        assert 'href="/sites"' not in (await person.get("/overview")).text
        assert "/help/sites" in (await person.get("/sites")).text
        await person.close()
    done = await asyncio.to_thread(ran, "sites", "list", folder=tmp_path)
    assert (done.returncode, "help sites" in done.stderr) == (2, True)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"viewport": {"width": 1440, "height": 900}}, "light"),
        ({"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"}, "dark"),
        ({"viewport": {"width": 390, "height": 844}}, "telephone"),
    ],
)
async def test_it_looks_right(
    sites: Sites, browser: Browser, tmp_path: Path, options: dict[str, Any], name: str
) -> None:
    """One silent, one old with alerts, one well: no fault on the console, no rule of axe broken, nothing too wide."""
    await sites.person("viewer")
    async with scripted() as old:
        old.answers["/messages/counts"] = None
        old.answers["/alerts"] = [
            alert("destination-down", detail="connection-refused, 421 waiting", meaning="Nothing was answered."),
            alert("held-lanes", "to decide", detail="3 patients", acknowledged_at=NOON, acknowledged_by="ann"),
            alert("new-source", "can wait", subject="adt REG|RVB", detail="REG|RVB"),
        ]
        await reload(sites, old.site("Old hospital"), south={"url": f"http://127.0.0.1:{free_port()}"})
        await _looks_right(sites, old.site("Old hospital"), browser, tmp_path / f"{name}.png", options)
    await reload(sites)


async def _looks_right(
    sites: Sites, old: SiteSettings, browser: Browser, picture: Path, options: dict[str, Any]
) -> None:
    port = (await sites.programs["home"].line("pages listening"))["port"]
    context = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    page = await context.new_page()
    faults: list[str] = []
    page.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
    await page.goto(f"http://127.0.0.1:{port}/")
    await page.get_by_label("Name").fill("viewer")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url("**/overview")
    await page.goto(f"http://127.0.0.1:{port}/sites")
    await expect(page.locator("section").first).to_contain_text("South does not answer", timeout=60_000)
    await expect(page.locator("section", has_text="Old hospital").first).to_contain_text("421 waiting", timeout=60_000)
    await expect(page.locator("main")).to_contain_text("Versions differ: 0.9.0 (Old hospital); 1.0.0", timeout=60_000)
    await expect(page.locator("main")).to_contain_text("messages.counts: not in its API")
    await expect(page.locator(".strip").last).to_contain_text("1 of 1 listening", timeout=60_000)
    await page.locator("details.alert").first.click()
    await page.screenshot(path=picture, full_page=True)
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert await page.evaluate(TOO_WIDE) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
    assert (faults, await page.evaluate("window.violations")) == ([], [])
    # An open alert holds the list, and not what comes first.
    await reload(sites, old)
    await expect(page.locator(".trouble")).to_have_count(0, timeout=60_000)
    await expect(page.locator("details.alert").first).to_have_attribute("open", "")
    assert (faults, await page.evaluate("window.violations")) == ([], [])
    await context.close()
