"""PATCH by JSON Patch: RFC 6902 on what is kept, written as an update would be."""

import contextlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpatch import JsonPatch

from engine.fhir.versions.names import name_in
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.patch import MOST_COPIED, patched
from tests.interchange.kit import Running, issue, patient, record_number
from tests.interchange.least import least, version_of
from tests.interchange.parallel import at_once, statuses

PATCH = {"content-type": "application/json-patch+json"}
Step = dict[str, Any]

# Document, patch and result: the examples of RFC 6902, appendix A, and what lies beside them.
WORKS = {
    "A.1": ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
    "A.2": (
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    "A.3": ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    "A.4": ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    "A.5": ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
    "A.6": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    "A.7": (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    "A.8": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    "A.10": (
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    "A.11": ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}], {"foo": "bar", "baz": "qux"}),
    "A.14": ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    "A.16": (
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
    "copy": (
        {"a": [1]},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2}],
        {"a": [1], "b": [1, 2]},
    ),
    "whole": ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    "null": ({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
    "numbers": (
        {"a": Decimal("1.50")},
        [{"op": "test", "path": "/a", "value": Decimal("1.5")}],
        {"a": Decimal("1.50")},
    ),
    "no resource": ({"a": 1}, [{"op": "replace", "path": "", "value": 5}], 5),
    "same place": ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
    "nothing": ({"a": 1}, [], {"a": 1}),
}
FAILS: dict[str, tuple[Any, Any, int]] = {
    "no list": ({}, {"op": "add"}, 400),
    "no object": ({}, ["add"], 400),
    "unknown": ({}, [{"op": "spam", "path": "/a"}], 400),
    "no op": ({}, [{"path": "/a"}], 400),
    "no path": ({}, [{"op": "remove"}], 400),
    "no value": ({}, [{"op": "add", "path": "/a"}], 400),
    "no from": ({"a": 1}, [{"op": "move", "path": "/a"}], 400),
    "no pointer": ({"a": 1}, [{"op": "remove", "path": "a"}], 400),
    "no text": ({"a": 1}, [{"op": "remove", "path": 1}], 400),
    "no escape": ({"~2": 1}, [{"op": "remove", "path": "/~2"}], 400),
    "into itself": ({"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": "/a/c"}], 422),
    "everything": ({"a": 1}, [{"op": "remove", "path": ""}], 422),
    "A.9": ({"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}], 409),
    "A.12": ({"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}], 422),
    "A.15": ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}], 409),
    "true is no 1": ({"a": True}, [{"op": "test", "path": "/a", "value": 1}], 409),
    "tested nowhere": ({}, [{"op": "test", "path": "/a", "value": 1}], 409),
    "beyond": ({"a": [1]}, [{"op": "add", "path": "/a/2", "value": 1}], 422),
    "no index": ({"a": [1]}, [{"op": "add", "path": "/a/01", "value": 1}], 422),
    "end of none": ({"a": [1]}, [{"op": "remove", "path": "/a/-"}], 422),
    "absent": ({"a": 1}, [{"op": "replace", "path": "/b", "value": 1}], 422),
    "below a text": ({"a": "x"}, [{"op": "add", "path": "/a/b", "value": 1}], 422),
    "replaced at the end": ({"a": [1]}, [{"op": "replace", "path": "/a/-", "value": 1}], 422),
    "not of RFC 6902": ({"a": "x"}, [{"op": "append", "path": "/a", "value": "y"}], 400),
    "op is no text": ({}, [{"op": ["add"], "path": "/a", "value": 1}], 400),
    "from is no text": ({}, [{"op": "copy", "from": None, "path": "/a"}], 400),
    "a number of many digits": ({"a": [1]}, [{"op": "test", "path": f"/a/{'9' * 5000}", "value": 1}], 409),
    "no patch behind what fails": ({}, [{"op": "test", "path": "/a", "value": 1}, {"op": "spam"}], 400),
    "doubled again and again": ({}, [{"op": "copy", "from": "", "path": f"/{n}"} for n in range(99)], 400),
    "copied into the depth": ({}, [{"op": "copy", "from": "", "path": "/a" * 2**n} for n in range(10)], 400),
    "ever deeper": ({}, [{"op": "add", "path": "/a" * n, "value": {}} for n in range(1, 110)], 400),
    "very many": ({}, [{"op": "add", "path": "/a", "value": 1}] * 1001, 400),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_a_patch_makes(name: str) -> None:
    """N-130: the six operations, on a copy: the document itself stays."""
    document, patch, result = WORKS[name]
    before = repr(document)
    assert repr(patched(document, patch)) == repr(result)
    assert repr(document) == before


@pytest.mark.parametrize("name", FAILS)
def test_what_is_no_patch_of_it(name: str) -> None:
    """N-131: 400 for what is no patch, 409 for a test that fails, 422 for a place that is not there."""
    document, patch, status = FAILS[name]
    with pytest.raises(RefusedError) as refused:
        patched(document, patch)
    assert refused.value.category.status == status
    assert refused.value.issues[0].location.startswith("http.body")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(before=JSON_VALUES, after=JSON_VALUES)
def test_any_value_can_be_put_and_tested(before: Any, after: Any) -> None:
    """N-130: whatever is put at a place is found by a test there, and removed again leaves what was."""
    patch = [{"op": "add", "path": "/x~1y~0", "value": after}, {"op": "test", "path": "/x~1y~0", "value": after}]
    made = patched({"z": before}, patch)
    assert made == {"z": before, "x/y~": after}
    assert patched(made, [{"op": "remove", "path": "/x~1y~0"}]) == {"z": before}


PATHS = st.text("ab/~01-", max_size=6)
STEPS = st.fixed_dictionaries(
    {"op": st.sampled_from([*JsonPatch.operations, "spam", None]), "path": PATHS},
    optional={"from": PATHS, "value": JSON_VALUES},
)


@given(document=JSON_VALUES, patch=st.lists(STEPS | JSON_VALUES, max_size=4) | JSON_VALUES)
def test_whatever_is_sent_is_done_or_refused(document: Any, patch: Any) -> None:
    """N-131: any patch of any document has a result, or is refused where it stands; the document stays."""
    before = repr(document)
    with contextlib.suppress(RefusedError):
        patched(document, patch)
    assert repr(document) == before


def test_what_a_refusal_says() -> None:
    """N-131: a refusal names operation and place, and nothing that could be a patient's."""
    with pytest.raises(RefusedError) as refused:
        patched({}, [{"op": "test", "path": "/", "value": 1}])
    assert refused.value.issues[0].diagnostics == "test: the value tested for is not there."
    with pytest.raises(RefusedError) as refused:
        patched(
            {"name": []}, [{"op": "add", "path": "/a", "value": 1}, {"op": "replace", "path": "/name/0", "value": 1}]
        )
    assert refused.value.issues[0].diagnostics.startswith("replace /name: ")
    assert refused.value.issues[0].location == "http.body[1]"


def test_copies_have_an_end() -> None:
    """N-131: copies are bounded by what they hold, not by their number."""
    document = {"a": [*range(MOST_COPIED // 2 - 1)]}
    copy = {"op": "copy", "from": "/a", "path": "/b"}
    assert patched(document, [copy, copy])["b"] == document["a"]
    with pytest.raises(RefusedError):
        patched(document, [copy, copy, copy])


def sent(service: Running, path: str, *steps: Step, **more: Any) -> Any:
    """Send a patch."""
    headers = {**PATCH, **more.pop("headers", {})}
    return service.ask("PATCH", path, json=list(steps), headers=headers, **more)


@pytest.mark.parametrize("type_name", KEPT)
def test_every_type(service: Running, base: str, type_name: str) -> None:
    """N-130: 200 with the next version, Content-Location and ETag; the history says PATCH."""
    name, owner = name_in(version_of(base), type_name), service.create(base)["id"]
    body = patient() if type_name == "Patient" else least(type_name, owner, version_of(base))
    made = service.ask("POST", f"{base}/{name}", json=body, headers={"prefer": "create-always"}).json()
    path = f"{base}/{name}/{made['id']}"
    answer = sent(service, path, {"op": "add", "path": "/language", "value": "en"})
    assert (answer.status_code, answer.headers["etag"]) == (200, 'W/"2"'), answer.text
    assert answer.headers["content-location"] == f"{service.url}{path}/_history/2"
    assert answer.json() == {**made, "language": "en", "meta": answer.json()["meta"]}
    assert service.ask("GET", path).json() == answer.json()
    entry = service.ask("GET", f"{path}/_history").json()["entry"][0]
    assert (entry["request"]["method"], entry["response"]["status"]) == ("PATCH", "200")
    minimal = sent(service, path, {"op": "remove", "path": "/language"}, headers={"prefer": "return=minimal"})
    assert (minimal.content, minimal.headers["etag"]) == (b"", 'W/"3"')


@pytest.mark.parametrize(
    ("step", "status", "code", "location"),
    [
        ({"op": "test", "path": "/gender", "value": "male"}, 409, "conflict", "http.body[0].path"),
        ({"op": "remove", "path": "/photo"}, 422, "invalid", "http.body[0]"),
        ({"op": "spam", "path": "/photo"}, 400, "invalid", "http.body[0].op"),
        ({"op": "remove", "path": "/gender"}, 400, "required", "Patient.gender"),
        ({"op": "replace", "path": "/gender", "value": "f"}, 422, "invalid", "Patient.gender"),
        ({"op": "replace", "path": "/name", "value": "x"}, 400, "structure", "Patient.name"),
        ({"op": "replace", "path": "/id", "value": "x"}, 422, "business-rule", "Patient.id"),
        ({"op": "remove", "path": "/meta"}, 422, "business-rule", "Patient.meta.versionId"),
        ({"op": "replace", "path": "/meta/versionId", "value": "9"}, 422, "business-rule", "Patient.meta.versionId"),
        ({"op": "remove", "path": "/meta/lastUpdated"}, 422, "business-rule", "Patient.meta.lastUpdated"),
        ({"op": "replace", "path": "/resourceType", "value": "Group"}, 422, "business-rule", "Patient.resourceType"),
        ({"op": "replace", "path": "", "value": []}, 400, "structure", "http.body"),
    ],
)
def test_refused_patches(service: Running, base: str, step: Step, status: int, code: str, location: str) -> None:
    """N-131, N-132: what a patch may not make is told with its place, and nothing is written."""
    path = f"{base}/Patient/{service.create(base)['id']}"
    assert issue(sent(service, path, step), status, code)["location"] == [location]
    assert service.ask("GET", path).headers["etag"] == 'W/"1"'


def test_it_is_judged_as_an_update(service: Running, base: str) -> None:
    """N-132: numbers stay unique, the service's own id stays, references resolve, If-Match is obeyed."""
    number = record_number(f"patched-{base.count('/')}")
    service.create(base, identifier=[number])
    made = service.create(base)
    path = f"{base}/Patient/{made['id']}"
    issue(sent(service, path, {"op": "add", "path": "/identifier/-", "value": number}), 409, "duplicate")
    kept = sent(service, path, {"op": "remove", "path": "/identifier"})
    assert kept.json()["identifier"] == made["identifier"]
    to = {"reference": "Organization/nobody"}
    issue(sent(service, path, {"op": "add", "path": "/managingOrganization", "value": to}), 422, "not-found")
    stale = sent(service, path, {"op": "add", "path": "/active", "value": False}, headers={"if-match": 'W/"1"'})
    issue(stale, 412 if base == "/fhir/R4" else 409, "conflict")
    fresh = sent(service, path, {"op": "add", "path": "/active", "value": False}, headers={"if-match": 'W/"2"'})
    assert fresh.json()["active"] is False
    issue(sent(service, f"{base}/Patient/nobody"), 404, "not-found")
    assert service.ask("DELETE", path).status_code == 204
    issue(sent(service, path), 410, "deleted" if base == "/fhir/R4" else "not-found")


def test_the_last_of_a_list_is_removed(service: Running, base: str) -> None:
    """N-130: a list that a patch empties is gone, wherever it stands: FHIR has no empty ones, and takes none."""
    phone, other = {"system": "phone", "value": "555-0100"}, {"system": "phone", "value": "555-0101"}
    contact = {"gender": "male", "telecom": [phone, other]}
    path = f"{base}/Patient/{service.create(base, telecom=[phone], contact=[contact])['id']}"
    assert "telecom" not in sent(service, path, {"op": "remove", "path": "/telecom/0"}).json()
    steps = [{"op": "remove", "path": f"/contact/0/telecom/{place}"} for place in (1, 0)]
    assert sent(service, path, *steps).json()["contact"] == [{"gender": "male"}]
    back = {"op": "add", "path": "/contact/0/telecom", "value": [phone]}
    assert sent(service, path, *steps[1:], back).status_code == 422
    assert sent(service, path, back).json()["contact"] == [{**contact, "telecom": [phone]}]
    within = {"op": "add", "path": "/telecom", "value": [[phone]]}
    issue(sent(service, path, within, {"op": "remove", "path": "/telecom/0/0"}), 400, "structure")
    empty = {"op": "add", "path": "/telecom", "value": []}
    issue(sent(service, path, empty), 400, "structure")
    moved = sent(service, path, empty, {"op": "move", "from": "/contact/0/telecom/0", "path": "/telecom/0"}).json()
    assert (moved["telecom"], moved["contact"]) == ([phone], [{"gender": "male"}])


def test_media_types(service: Running, base: str) -> None:
    """N-130: a patch is application/json-patch+json, and nothing else is one."""
    path = f"{base}/Patient/{service.create(base)['id']}"
    for kind in ("application/fhir+json", "application/json", "application/merge-patch+json", "text/plain"):
        issue(service.ask("PATCH", path, json=[], headers={"content-type": kind}), 415, "not-supported")
    assert "accept-patch" not in service.ask("PUT", path, json={}, headers=PATCH).headers
    issue(service.ask("PUT", path, json={}, headers=PATCH), 415, "not-supported")
    assert service.ask("GET", f"{base}/metadata").json()["patchFormat"] == ["application/json-patch+json"]
    issue(service.ask("PATCH", f"{path}?_x=1", json=[], headers=PATCH), 400, "not-supported")


def test_fhirpath_patch_is_not_taken(service: Running, base: str) -> None:
    """N-134: a FHIRPath Patch is refused by what names the patch that is taken, alone and in a Bundle."""
    path = f"Patient/{service.create(base)['id']}"
    parts = [{"name": "type", "valueCode": "delete"}, {"name": "path", "valueString": "Patient.birthDate"}]
    body = {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": parts}]}
    answer = service.ask("PATCH", f"{base}/{path}", json=body)
    told = issue(answer, 415, "not-supported")
    assert (told["location"], answer.headers["accept-patch"]) == (["http.Content-Type"], "application/json-patch+json")
    assert "application/json-patch+json" in told["diagnostics"]
    assert "FHIRPath Patch" in told["diagnostics"]
    entry = {"resource": body, "request": {"method": "PATCH", "url": path}}
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [entry]}
    issue(service.ask("POST", base, json=bundle), 400, "structure" if base == "/fhir/R4" else "not-supported")
    assert service.ask("GET", f"{base}/{path}").headers["etag"] == 'W/"1"'


@pytest.mark.parametrize(
    ("client", "status"), [("nurse", 200), ("administrative", 403), ("read", 403), ("pwrite", 403)]
)
def test_roles_and_scopes(service: Running, base: str, client: str, status: int) -> None:
    """N-132: who may update may patch: a nurse a medication request that is there, others none."""
    owner = service.create(base)["id"]
    body = least("MedicationRequest", owner, version_of(base))
    drug = service.ask("POST", f"{base}/MedicationRequest", json=body).json()["id"]
    answer = sent(
        service,
        f"{base}/MedicationRequest/{drug}",
        {"op": "replace", "path": "/status", "value": "completed"},
        client=client,
    )
    assert answer.status_code == status, answer.text


def test_links_of_results(service: Running, base: str) -> None:
    """N-132: a result is linked to its patient's orders only, by a patch too; unlinking is always taken."""
    one, other = service.create(base)["id"], service.create(base)["id"]
    version = version_of(base)
    order_type = name_in(version, "ServiceRequest")
    orders = [
        service.ask("POST", f"{base}/{order_type}", json=least("ServiceRequest", who, version)).json()["id"]
        for who in (one, other)
    ]
    report = service.ask("POST", f"{base}/DiagnosticReport", json=least("DiagnosticReport", one, version)).json()["id"]
    path = f"{base}/DiagnosticReport/{report}"
    links = [[{"reference": f"{order_type}/{order}"}] for order in orders]
    issue(sent(service, path, {"op": "add", "path": "/basedOn", "value": links[1]}), 422, "business-rule")
    assert sent(service, path, {"op": "add", "path": "/basedOn", "value": links[0]}).status_code == 200
    assert "basedOn" not in sent(service, path, {"op": "remove", "path": "/basedOn"}).json()


def test_patches_at_once(service: Running, base: str) -> None:
    """N-133: patches of different places made at once all stand; of those that test a value one is taken."""
    path = f"{base}/Patient/{service.create(base)['id']}"
    telecom = [{"op": "add", "path": "/telecom", "value": []}]
    assert service.ask("PATCH", path, json=telecom[:0], headers=PATCH).status_code == 200
    first = {"op": "add", "path": "/telecom", "value": [{"system": "phone", "value": "0"}]}
    assert sent(service, path, first).status_code == 200
    calls = [
        ("PATCH", path, [{"op": "add", "path": "/telecom/-", "value": {"system": "phone", "value": str(n)}}], PATCH)
        for n in range(1, 17)
    ]
    assert statuses(at_once(service, calls)) == [200] * 16
    numbers = {one["value"] for one in service.ask("GET", path).json()["telecom"]}
    assert numbers == {str(n) for n in range(17)}
    guarded = [
        {"op": "test", "path": "/birthDate", "value": "1984-02-29"},
        {"op": "replace", "path": "/birthDate", "value": "1985-01-01"},
    ]
    assert statuses(at_once(service, [("PATCH", path, guarded, PATCH)] * 8)) == [200] + [409] * 7
