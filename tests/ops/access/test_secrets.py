"""Nothing secret is said: passwords, tokens, cookies and hashes stand in no log, no metric and no row of the audit."""

import asyncio
from pathlib import Path

import orjson

from engine.journal.access.audited import AuditFilter, AuditReader
from engine.ops.access.keys import FILE
from tests.flow.rig import running
from tests.ops.web.conftest import start
from tests.ops.web.person import Person

PASSWORD = "Kolibri-Zaunkönig-Rotkehlchen"
WRONG = "Kormoran-Pelikan-Flamingo-1"
TYPED_AS_A_NAME = "Nachtigall-Drossel-Amsel-7"


async def test_a_day_of_log_ins_leaves_no_secret_behind(tmp_path: Path) -> None:
    """Set-up, right and wrong log-ins, a password in the wrong field, tokens good and bad."""
    async with running(tmp_path) as rig:
        site = await start(rig)
        invited = await site.act("users.add", name="ann", role="operator")
        token = await site.token("viewer", "board")
        person = Person(site.port)
        await person.set_up(invited["token"], "ann", PASSWORD)
        cookies = [person.session]
        for name, password in (("ann", WRONG), (TYPED_AS_A_NAME, ""), ("ann", PASSWORD)):
            await person.log_in(name, password)
        cookies.append(person.session)
        headers = [{"authorization": f"Bearer {one}"} for one in (token, f"{token}x", WRONG)]
        answers = [await person.http.get("/api/v1/stats", headers=header) for header in headers]
        assert [answer.status_code for answer in answers] == [200, 401, 401]
        metrics = (await site.act("metrics")).encode()
        await person.close()
        assert await rig.engine.stop() == 0
        said = b"".join(rig.engine.said)
    with AuditReader(tmp_path / "data") as reader:
        rows = [f"{row.actor} {row.act} {row.reason} {row.detail}" for row in reader.rows(AuditFilter(), 1000)]
    key = (tmp_path / "data" / FILE).read_bytes()
    secrets = [
        PASSWORD.encode(),
        WRONG.encode(),
        TYPED_AS_A_NAME.encode(),
        token.encode(),
        invited["token"].encode(),
        key,
    ]
    secrets += [cookie.encode() for cookie in cookies if cookie] + [b"argon2"]
    for place in (said, metrics, "\n".join(rows).encode()):
        assert not [secret for secret in secrets if secret.lower() in place.lower()]
    assert sum("log-in" in row for row in rows) == 4  # the set-up logs in, too
    held = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir() if file.is_file() and file.name != FILE)
    assert not [secret for secret in secrets[:-1] if secret in held]


async def test_operations_and_rows_of_the_audit_match_one_to_one(tmp_path: Path) -> None:
    """Many people at once over a real engine: each operation has its one row, and none stands for nothing."""
    async with running(tmp_path) as rig:
        site = await start(rig)
        done = [("users.add", {"name": f"person{number}", "role": "viewer"}) for number in range(20)]
        done += [("messages.show", {"entry": number}) for number in range(1, 21)]
        done += [("stats", {})] * 10
        answers = await asyncio.gather(*(rig.ask(act, **given) for act, given in done))
        refused = [act for (act, _given), answer in zip(done, answers, strict=True) if "error" in answer]
        assert refused == ["messages.show"] * 20  # there is no such entry
        await site.rig.engine.stop()
    with AuditReader(tmp_path / "data") as reader:
        rows = [row for row in reader.rows(AuditFilter(), 1000) if row.via == "socket"]
        assert reader.verify().faults == ()
    asked = [row for row in rows if row.outcome == "asked"]
    assert sorted(
        (row.act, row.entry or orjson.loads(row.detail)["name"]) for row in asked if row.act == "users.add"
    ) == (sorted(("users.add", given["name"]) for act, given in done if act == "users.add"))
    assert sorted(row.entry or 0 for row in asked if row.act == "messages.show") == list(range(1, 21))
    assert len(asked) == 40
    assert sorted(row.follows or 0 for row in rows if row.outcome == "refused") == sorted(
        row.seq for row in asked if row.act == "messages.show"
    )
