"""A Bundle against its entries one by one: the same requests leave the same state and the same answers."""

import base64
import re
import sqlite3
from itertools import count
from typing import Any, NamedTuple

import httpx
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.interchange.kit import MRN, Running, patient, record_number
from tests.interchange.least import least, version_of
from tests.tiers import trials

FRESH = count(1)
# Two tenants that begin alike: one is sent Bundles, the other their entries.
WHOLE, SINGLE = ("riverbend", "physician"), ("lakeside", "other")
ORDER = {"DELETE": 0, "POST": 1, "PUT": 2, "PATCH": 2, "GET": 3}
PATCH = "application/json-patch+json"
STATE = (
    "SELECT type, id, version, survivor, change, body FROM resource"
    " WHERE key > ? AND tenant = (SELECT number FROM tenant WHERE name = ?) ORDER BY key"
)
FORMER = (
    "SELECT resource.id, version.version, version.change, version.body FROM version JOIN resource USING (key)"
    " WHERE key > ? AND resource.tenant = (SELECT number FROM tenant WHERE name = ?) ORDER BY key, version.version"
)
MADE = re.compile(r"\b[0-9a-f]{24}\b")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")
PEOPLE, PROBLEMS = ("p0", "p1", "p2"), ("c0", "c1")
OFTEN = settings(max_examples=trials(20), suppress_health_check=[HealthCheck.function_scoped_fixture])


class Step(NamedTuple):
    """One request, and what it writes: no other entry of a transaction may write that. `{}` stands for the example."""

    method: str
    url: str
    body: Any = None
    conditions: tuple[tuple[str, str], ...] = ()
    writes: str = ""


def someone(name: str, **more: Any) -> dict[str, Any]:
    """Return a patient of a family name of this example's own."""
    return patient(name=[{"family": f"Model{{}}{name}", "given": ["A"]}], **more)


def person(name: str, **more: Any) -> dict[str, Any]:
    """Return one of the patients who are there."""
    return someone(name, id=f"m{{}}-{name}", identifier=[record_number(f"m{{}}-{name}")], **more)


def problem(of: str, **more: Any) -> dict[str, Any]:
    """Return a condition of one of them; what a version asks for beside that is added when it is sent."""
    return {"resourceType": "Condition", "subject": {"reference": f"Patient/m{{}}-{of}"}, **more}


def noted(name: str) -> list[dict[str, str]]:
    """Return the identifier of a condition."""
    return [{"system": "urn:model", "value": f"m{{}}-{name}"}]


who, what = st.sampled_from(PEOPLE), st.sampled_from(PROBLEMS)
dates = st.sampled_from(["1990", "1991-05", "1992-02-29"])
versions = st.sampled_from([(), (), (("if-match", 'W/"1"'),), (("if-match", 'W/"7"'),)])
STEPS = st.one_of(
    st.builds(
        lambda one, date, condition: Step(
            "PUT", f"Patient/m{{}}-{one}", person(one, birthDate=date), condition, f"Patient {one}"
        ),
        who,
        dates,
        versions,
    ),
    st.builds(
        lambda one, of: Step(
            "PUT", f"Condition/m{{}}-{one}", problem(of, id=f"m{{}}-{one}", identifier=noted(one)), (), one
        ),
        what,
        who,
    ),
    st.builds(
        lambda one, date: Step(
            "PUT", f"Patient?identifier={MRN}%7Cm{{}}-{one}", person(one, birthDate=date), (), f"Patient {one}"
        ),
        who,
        dates,
    ),
    st.builds(
        lambda one: Step("POST", "Patient", someone(one), (("if-none-exist", f"family=Model{{}}{one}"),), one),
        st.sampled_from([*PEOPLE, "new"]),
    ),
    st.builds(
        lambda one, of: Step(
            "POST",
            "Condition",
            problem(of, identifier=noted(one)),
            (("if-none-exist", f"identifier=urn:model|m{{}}-{one}"),),
            f"Condition {one}",
        ),
        st.sampled_from([*PROBLEMS, "c2"]),
        who,
    ),
    st.builds(lambda of: Step("POST", "Condition", problem(of)), who),
    st.just(Step("POST", "Patient", patient(gender=None))),
    st.builds(
        lambda one, more: Step("DELETE", f"Patient/m{{}}-{one}{more}", writes=f"Patient {one}"),
        who,
        st.sampled_from(["", "?_cascade=delete"]),
    ),
    st.builds(lambda one: Step("DELETE", f"Condition/m{{}}-{one}", writes=one), what),
    st.builds(lambda one: Step("DELETE", f"Condition?identifier=urn:model|m{{}}-{one}", writes=one), what),
    st.builds(
        lambda one, date: Step(
            "PATCH",
            f"Patient/m{{}}-{one}",
            [{"op": "replace", "path": "/birthDate", "value": date}],
            (),
            f"Patient {one}",
        ),
        who,
        dates,
    ),
    st.builds(lambda one: Step("GET", f"Patient/m{{}}-{one}"), who),
    st.builds(lambda one: Step("GET", f"Condition?patient=m{{}}-{one}"), who),
    st.builds(lambda one: Step("GET", f"Patient/m{{}}-{one}/_history"), who),
    st.just(Step("GET", "Nonsense/1")),
)
BUNDLES = st.lists(STEPS, min_size=1, max_size=7)


def of_example(steps: list[Step], number: int, base: str) -> list[Step]:
    """Return the steps with the names of one example, in the shape of a base; STU3 has no patch in Bundles."""
    kept = [step for step in steps if base == "/fhir/R4" or step.method != "PATCH"]
    return [_of_example(one, str(number), base) for one in kept]


def _of_example(step: Step, number: str, base: str) -> Step:
    body = orjson.loads(orjson.dumps(step.body).replace(b"{}", number.encode()))
    if isinstance(body, dict) and body["resourceType"] == "Condition":
        body = {**least("Condition", "x", version_of(base)), **body}
    conditions = tuple((name, value.replace("{}", number)) for name, value in step.conditions)
    return step._replace(url=step.url.replace("{}", number), body=body, conditions=conditions)


def entry(step: Step) -> dict[str, Any]:
    """Return a step as the entry of a Bundle."""
    names = {"if-match": "ifMatch", "if-none-exist": "ifNoneExist"}
    request = {"method": step.method, "url": step.url, **{names[name]: value for name, value in step.conditions}}
    if step.method == "PATCH":
        data = base64.b64encode(orjson.dumps(step.body)).decode()
        return {"request": request, "resource": {"resourceType": "Binary", "contentType": PATCH, "data": data}}
    return {"request": request, **({} if step.body is None else {"resource": step.body})}


def send(
    service: Running, client: str, method: str, path: str, body: Any = None, headers: tuple[tuple[str, str], ...] = ()
) -> httpx.Response:
    """Send a request."""
    kind = PATCH if method == "PATCH" else "application/fhir+json"
    told = {"authorization": f"Bearer {service.token(client)}", "content-type": kind, "prefer": "create-always"}
    content = None if body is None else orjson.dumps(body)
    return service.http.request(method, service.url + path, content=content, headers={**told, **dict(headers)})


def bundled(service: Running, base: str, kind: str, steps: list[Step]) -> httpx.Response:
    """Send steps as one Bundle to the first tenant."""
    body = {"resourceType": "Bundle", "type": kind, "entry": [entry(step) for step in steps]}
    return send(service, WHOLE[1], "POST", base, body)


def begun(service: Running, base: str) -> tuple[int, int]:
    """Give both tenants the same patients and conditions; return the example's number, and the key before them."""
    number = next(FRESH)
    connection = sqlite3.connect(service.database)
    (key,) = connection.execute("SELECT max(key) FROM resource").fetchone()
    connection.close()
    steps = [Step("PUT", f"Patient/m{{}}-{one}", person(one)) for one in PEOPLE]
    for one, of in zip(PROBLEMS, PEOPLE, strict=False):
        steps.append(Step("PUT", f"Condition/m{{}}-{one}", problem(of, id=f"m{{}}-{one}", identifier=noted(one))))
    entries = [entry(one) for one in of_example(steps, number, base)]
    for _, client in (WHOLE, SINGLE):
        body = {"resourceType": "Bundle", "type": "transaction", "entry": entries}
        assert send(service, client, "POST", base, body).status_code == 200
    return number, key or 0


def one_by_one(service: Running, base: str, steps: list[Step]) -> dict[int, httpx.Response]:
    """Send the steps to the second tenant, in the order of a Bundle's methods, and return the answers by place."""
    return {
        place: send(service, SINGLE[1], one.method, f"{base}/{one.url}", one.body, one.conditions)
        for place, one in sorted(enumerate(steps), key=lambda numbered: ORDER[numbered[1].method])
    }


def state(service: Running, tenant: str, key: int) -> list[tuple[Any, ...]]:
    """Return all that a tenant keeps behind a key, present and former, without what differs from one to the next."""
    connection = sqlite3.connect(service.database)
    rows = [*connection.execute(STATE, (key, tenant)), *connection.execute(FORMER, (key, tenant))]
    connection.close()
    # Among what goes by one method a transaction has an order of its own: what others are found by comes first.
    rows.sort(key=lambda row: MADE.sub("", MOMENT.sub("", str(row))))
    places: dict[str, str] = {}

    def plain(value: Any) -> Any:
        if not isinstance(value, str | bytes):
            return value
        text = value.decode() if isinstance(value, bytes) else value
        return MOMENT.sub("AT", MADE.sub(lambda found: places.setdefault(found[0], f"made{len(places)}"), text))

    return [tuple(plain(value) for value in row) for row in rows]


def answered(status: int, body: Any) -> tuple[int, Any]:
    """Return an answer as it can be compared: refusals by their codes, for they name other places."""
    if body and body["resourceType"] == "OperationOutcome":
        return status, [one["code"] for one in body["issue"]]
    return status, MOMENT.sub("AT", MADE.sub("ID", orjson.dumps(body).decode()))


def answers_of(bundle: Any) -> list[tuple[int, Any]]:
    """Return the answers in a Bundle."""
    return [
        answered(int(one["response"]["status"][:3]), one.get("resource") or one["response"].get("outcome"))
        for one in bundle.get("entry", [])
    ]


@pytest.mark.property
@OFTEN
@given(drawn=BUNDLES)
def test_a_batch_is_its_entries(service: Running, base: str, drawn: list[Step]) -> None:
    """N-166: whatever is in it, a batch answers and leaves what its entries do, one by one in the order of methods."""
    number, key = begun(service, base)
    steps = of_example(drawn, number, base)
    whole = bundled(service, base, "batch", steps)
    single = one_by_one(service, base, steps)
    assert answers_of(whole.json()) == [
        answered(single[place].status_code, single[place].json() if single[place].content else None)
        for place in range(len(steps))
    ]
    assert state(service, WHOLE[0], key) == state(service, SINGLE[0], key)


@pytest.mark.property
@OFTEN
@given(drawn=BUNDLES)
def test_a_transaction_is_its_entries_or_nothing(service: Running, base: str, drawn: list[Step]) -> None:
    """N-167: where no entry is refused by itself a transaction leaves what they do, else it leaves what was."""
    number, key = begun(service, base)
    # Of what several entries write only the last is sent; conditions go before the patients that they are of.
    first = {one.writes or f"free {place}": one for place, one in enumerate(drawn)}
    kept = sorted(first.values(), key=lambda one: (one.method == "DELETE", "Patient" in one.url))
    steps = of_example(kept, number, base)
    before = state(service, WHOLE[0], key)
    whole = bundled(service, base, "transaction", steps)
    single = one_by_one(service, base, steps)
    refused = [one.status_code for one in single.values() if one.status_code >= 400]
    if refused:
        assert whole.status_code in {400, *refused}, (whole.text, refused)
        assert state(service, WHOLE[0], key) == before
        return
    assert whole.status_code == 200, whole.text
    assert answers_of(whole.json()) == [
        answered(single[place].status_code, single[place].json() if single[place].content else None)
        for place in range(len(steps))
    ]
    assert state(service, WHOLE[0], key) == state(service, SINGLE[0], key)
