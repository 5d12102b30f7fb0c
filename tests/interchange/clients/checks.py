"""What must be so after each verb: what the client was told, held against what the service says without it."""

from collections.abc import Callable
from typing import Any, Final

from tests.interchange.clients.task import PAGE, PEOPLE, Task
from tests.interchange.kit import MRN, SECRET

Json = Any


def core(resource: Json) -> Json:
    """Return what a client must have of a resource, however it keeps it: who, which version, what it says."""
    version = resource["meta"]["versionId"]
    said = {name: resource.get(name) for name in ("resourceType", "id", "gender", "birthDate", "name", "subject")}
    return {**said, "version": version}


def _same(task: Task, saw: Json, version: str) -> Json:
    """Return the patient that a client saw, after holding it to what the service has, in this version."""
    kept = task.ask("GET", f"Patient/{saw['id']}")
    assert core(saw) == core(kept)
    assert kept["meta"]["versionId"] == version
    return kept


def _references(found: list[Json]) -> set[str]:
    return {f"{one['resourceType']}/{one['id']}" for one in found}


def _found(task: Task, query: str) -> list[Json]:
    return [entry["resource"] for entry in task.ask("GET", query)["entry"]]


def _query(given: Json) -> str:
    return "&".join(f"{name}={value}" for name, value in given["query"].items())


def created(task: Task, given: Json, saw: Json) -> None:
    """The patient is there as the client made it."""
    kept = _same(task, saw, "1")
    assert kept["name"] == given["resource"]["name"]
    assert kept["birthDate"] == "1985-03-01"


def read(task: Task, given: Json, saw: Json) -> None:
    """The client has the patient that it asked for."""
    assert _same(task, saw, "1")["id"] == given["id"]


def updated(task: Task, given: Json, saw: Json) -> None:
    """The patient's second version is the client's."""
    kept = _same(task, saw, "2")
    assert (kept["id"], kept["gender"]) == (given["id"], "male")


def version_read(task: Task, given: Json, saw: Json) -> None:
    """The client has the first version of two."""
    assert core(saw) == core(task.ask("GET", f"Patient/{given['id']}/_history/1"))
    assert (saw["gender"], saw["meta"]["versionId"]) == ("female", "1")


def history(task: Task, given: Json, saw: Json) -> None:
    """The client has both versions, the newest first."""
    assert [core(one) for one in saw] == [core(one) for one in _found(task, f"Patient/{given['id']}/_history")]
    assert [one["gender"] for one in saw] == ["male", "female"]


def searched(task: Task, given: Json, saw: Json) -> None:
    """The client has the one patient of that name."""
    assert [core(one) for one in saw] == [core(one) for one in _found(task, f"Patient?{_query(given)}")]
    assert [one["name"][0]["given"] for one in saw] == [["Twice"]]


def paged(task: Task, given: Json, saw: Json) -> None:
    """The client has every patient once; pages, where it shows them, are full but for the last."""
    everybody = _references(_found(task, f"Patient?family={given['query']['family']}&_count=100"))
    assert len(everybody) == PEOPLE
    found = saw
    if isinstance(saw[0], list):
        assert [len(page) for page in saw] == [PAGE, PAGE, PEOPLE - 2 * PAGE]
        found = [one for page in saw for one in page]
    assert _references(found) == everybody
    assert len(found) == PEOPLE


def included(task: Task, given: Json, saw: Json) -> None:
    """The client has the observation, and the patient with it."""
    assert _references(saw) == {f"Observation/{given['observation']}", f"Patient/{given['patient']}"}
    assert {one["id"]: core(one) for one in saw}[given["patient"]] == core(
        task.ask("GET", f"Patient/{given['patient']}")
    )


def created_once(task: Task, given: Json, saw: Json) -> None:
    """Two creates under one condition made one patient, which both of them were told of."""
    assert _references(_found(task, f"Patient?{_query(given)}")) == _references(saw)
    assert saw[0]["id"] == saw[1]["id"]
    _same(task, saw[1], "1")


def updated_by_number(task: Task, given: Json, saw: Json) -> None:
    """The first update by a number created the patient that the second one changed."""
    assert _references(_found(task, f"Patient?{_query(given)}")) == _references(saw)
    assert [one["meta"]["versionId"] for one in saw] == ["1", "2"]
    assert _same(task, saw[1], "2")["gender"] == "male"


def patched(task: Task, given: Json, saw: Json) -> None:
    """The patch made a second version."""
    kept = _same(task, saw, "2")
    assert (kept["id"], kept["gender"]) == (given["id"], "other")


def deleted(task: Task, given: Json, saw: Json) -> None:
    """The patient is gone, and the history says that it was deleted."""
    assert saw is None
    assert task.service.ask("GET", f"{task.path}/Patient/{given['id']}").status_code == 410
    newest = task.ask("GET", f"Patient/{given['id']}/_history")["entry"][0]
    assert newest["request"]["method"] == "DELETE"


def transacted(task: Task, given: Json, saw: Json) -> None:
    """Both were created, and the second refers to the first."""
    assert saw["type"] == "transaction-response"
    assert [one["response"]["status"] for one in saw["entry"]] == ["201 Created"] * 2
    person, seen = (one["response"]["location"].split("/_history")[0].split("/")[-1] for one in saw["entry"])
    assert task.ask("GET", f"Patient/{person}")["name"] == given["bundle"]["entry"][0]["resource"]["name"]
    assert task.ask("GET", f"Observation/{seen}")["subject"]["reference"] == f"Patient/{person}"


def charted(task: Task, given: Json, saw: Json) -> None:
    """The client has the patient and the chart."""
    assert _references(saw) == {f"Patient/{given['id']}", f"Observation/{given['observation']}"}


def merged(task: Task, given: Json, saw: Json) -> None:
    """The client was told so; the other record leads to the survivor, whom its number finds from now on."""
    assert saw == {"resourceType": "Parameters", "parameter": [{"name": "info", "valueString": "merged"}]}
    (link,) = task.ask("GET", f"Patient/{given['source']}")["link"]
    assert (link["type"], link["other"]["reference"]) == ("replaced-by", f"Patient/{given['target']}")
    assert [one["id"] for one in _found(task, f"Patient?identifier={MRN}|{given['number']}")] == [given["target"]]


def discovered(task: Task, given: Json, saw: Json) -> None:
    """The client found where to sign in and where to get a token."""
    said = task.service.http.get(f"{task.base}/.well-known/smart-configuration").json()
    assert saw["authorize"] == said["authorization_endpoint"]
    assert saw["token"] == said["token_endpoint"]


def signed_in(task: Task, given: Json, saw: Json) -> None:
    """The service knows the token that the client holds as this client's, and takes it."""
    auth = (given["client"], SECRET) if "secret" in given else ("physician", SECRET)
    said = task.service.http.post(f"{task.service.url}/oauth/info", data={"token": saw["token"]}, auth=auth).json()
    assert (said["active"], said["client_id"]) == (True, given["client"])
    bearer = {"authorization": f"Bearer {saw['token']}"}
    assert task.service.http.get(f"{task.base}/Patient?_count=1", headers=bearer).status_code == 200


CHECKS: Final[dict[str, Callable[[Task, Json, Json], None]]] = {
    "create": created,
    "read": read,
    "update": updated,
    "vread": version_read,
    "history": history,
    "search": searched,
    "page": paged,
    "_include": included,
    "conditional create": created_once,
    "conditional update": updated_by_number,
    "patch": patched,
    "delete": deleted,
    "transaction": transacted,
    "$everything": charted,
    "$merge": merged,
    "discovery": discovered,
    "client credentials": signed_in,
    "authorization code": signed_in,
}
