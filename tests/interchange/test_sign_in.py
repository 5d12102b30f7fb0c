"""Signing in: authorization requests, the form, codes, and tokens that speak for users (points B, C-085)."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.config.account import Auth, Client, Role, User
from engine.config.secret import Secret
from tests.interchange.browser import BACK, CHALLENGE, HASH, PASSWORD, USERS, VERIFIER, Browser, portal, sent_back
from tests.interchange.kit import SECRET, Outside, Running, issue, merge_body, running, secret_file

NATIVE = "org.example.app:/done"
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}


def clients(folder: Path) -> dict[str, Client]:
    """Return clients that hold a secret, one that holds none, one of another tenant, and one without a sign-in."""
    secret = Secret(file=str(secret_file(folder)))
    return {
        "portal": portal(secret),
        "twin": portal(secret, name="Twin"),
        "lakeside": portal(secret, tenant="lakeside"),
        "machine": portal(secret, grants=("client_credentials",)),
        "app": portal(
            secret, secret=None, name="", redirect_uris=(NATIVE,), grants=("authorization_code", "refresh_token")
        ),
        "narrow": portal(secret, scopes=("patient.read",)),
    }


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with users, whose clock nobody moves."""
    folder = tmp_path_factory.mktemp("signing")
    with running(folder, clients=clients(folder), users=USERS) as found:
        yield found


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Outside]:
    """A service of the test's own, with users."""
    with running(tmp_path, clients=clients(tmp_path), users=USERS) as found:
        yield found


def exchange(service: Running, issued: str, **fields: str) -> httpx.Response:
    """Exchange a code as the portal; a field given as '-' is left out."""
    usual = {"grant_type": "authorization_code", "client_id": "portal", "client_secret": SECRET, "redirect_uri": BACK}
    filled = {name: value for name, value in {**usual, "code": issued, **fields}.items() if value != "-"}
    return service.http.post(f"{service.url}/oauth/token", data=filled)


def refuses(answer: httpx.Response, code: str, status: int = 400) -> None:
    """Hold an answer of the token endpoint to an error."""
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    assert answer.headers["cache-control"] == "no-store"


def tokens(service: Running, user: str = "dr.osei", scope: str = "user/.") -> dict[str, Any]:
    """Sign a user in at the portal and return the token answer."""
    answer = exchange(service, Browser(service, user).code(scope=scope))
    assert answer.status_code == 200, answer.text
    return answer.json()


def asks(service: Running, path: str, token: str, **more: Any) -> httpx.Response:
    """Send a request with a token."""
    method = "POST" if "json" in more else "GET"
    headers = {"authorization": f"Bearer {token}", "content-type": "application/fhir+json"}
    return service.http.request(method, f"{service.url}{path}", headers=headers, **more)


def refresh(service: Running, token: str) -> httpx.Response:
    """Refresh as the portal."""
    fields = {"grant_type": "refresh_token", "client_id": "portal", "client_secret": SECRET, "refresh_token": token}
    return service.http.post(f"{service.url}/oauth/token", data=fields)


def test_from_sign_in_to_tokens(signing: Running) -> None:
    """C-044, C-045: a person signs in and allows; code and state go back; the code gives tokens that work."""
    browser = Browser(signing)
    page = browser.open(state="a b&c=d\n\"'")
    assert page.answer.status_code == 200
    back = browser.send(page)
    told = sent_back(back.answer)
    assert set(told) == {"code", "state"}
    assert told["state"] == "a b&c=d\n\"'"
    assert back.answer.headers["cache-control"] == "no-store"
    answer = exchange(signing, told["code"])
    body = answer.json()
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert (body["scope"], body["token_type"], body["rest_api_version"]) == ("user/.", "Bearer", "2025-06-01")
    assert asks(signing, "/fhir/R4/Patient?_count=0", body["access_token"]).status_code == 200
    again = refresh(signing, body["refresh_token"])
    assert asks(signing, "/oauth/userinfo", again.json()["access_token"]).json()["sub"] == "dr.osei"


def test_a_redirect_address_with_a_query(signing: Running) -> None:
    """RFC 6749 section 3.1.2: the query of a registered address is kept."""
    address = f"{BACK}?site=1"
    browser = Browser(signing)
    told = sent_back(browser.send(browser.open(redirect_uri=address)).answer, address)
    assert told["site"] == "1"
    assert exchange(signing, told["code"], redirect_uri=address).status_code == 200


def test_a_code_used_twice(signing: Running) -> None:
    """C-045: the second use is refused, and ends the tokens that the first one gave (RFC 6749 section 4.1.2)."""
    code = Browser(signing).code()
    body = exchange(signing, code).json()
    assert asks(signing, "/fhir/R4/Patient?_count=0", body["access_token"]).status_code == 200
    refuses(exchange(signing, code), "invalid_grant")
    issue(asks(signing, "/fhir/R4/Patient?_count=0", body["access_token"]), 401, "login")
    refuses(refresh(signing, body["refresh_token"]), "invalid_grant")


def test_a_code_used_by_many_at_once(signing: Running) -> None:
    """C-045: of exchanges at one moment exactly one succeeds, and what it gave is ended by the others."""
    code = Browser(signing).code()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: exchange(signing, code), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7
    won = next(answer.json() for answer in answers if answer.status_code == 200)
    assert asks(signing, "/fhir/R4/Patient", won["access_token"]).status_code == 401


def test_a_code_lives_a_minute(own: Outside) -> None:
    """C-045: after 60 seconds a code is worth nothing; one used before still ends its tokens then."""
    late, used = Browser(own).code(), Browser(own).code()
    body = exchange(own, used).json()
    own.advance(61)
    refuses(exchange(own, late), "invalid_grant")
    refuses(exchange(own, used), "invalid_grant")
    assert asks(own, "/fhir/R4/Patient", body["access_token"]).status_code == 401


@pytest.mark.parametrize(
    ("asked", "changes", "error"),
    [
        pytest.param({}, {"code": "ac_unknown"}, "invalid_grant", id="unknown code"),
        pytest.param({}, {"code": "-"}, "invalid_request", id="no code"),
        pytest.param({}, {"redirect_uri": "-"}, "invalid_request", id="no redirect_uri"),
        pytest.param({}, {"redirect_uri": f"{BACK}?site=1"}, "invalid_grant", id="another registered redirect_uri"),
        pytest.param({}, {"client_id": "twin"}, "invalid_grant", id="another client"),
        pytest.param({}, {"client_id": "machine"}, "unauthorized_client", id="a client without this grant"),
        pytest.param({}, {"client_secret": "wrong"}, "invalid_client", id="wrong secret"),
        pytest.param({}, {"client_secret": "-"}, "invalid_client", id="no secret"),
        pytest.param({}, {"code_verifier": VERIFIER}, "invalid_grant", id="a verifier without a challenge"),
        pytest.param(PKCE, {}, "invalid_grant", id="no verifier"),
        pytest.param(PKCE, {"code_verifier": VERIFIER[:-1] + "x"}, "invalid_grant", id="another verifier"),
        pytest.param(PKCE, {"code_verifier": CHALLENGE}, "invalid_grant", id="the challenge as verifier"),
        pytest.param(PKCE, {"code_verifier": VERIFIER + "é"}, "invalid_grant", id="no verifier by its letters"),
        pytest.param({}, {"rest_api_version": "1999-01-01"}, "unsupported_api_version", id="C-555"),
    ],
)
def test_exchanges_that_are_refused(
    signing: Running, asked: dict[str, str], changes: dict[str, str], error: str
) -> None:
    """C-045, RFC 7636: a code is bound to client, address and verifier; a try that does not fit does not spend it."""
    code = Browser(signing).code(**asked)
    refuses(exchange(signing, code, **changes), error)
    proper = {"code_verifier": VERIFIER} if asked else {}
    assert exchange(signing, code, **proper, rest_api_version="06-01-2025").status_code == 200


def test_a_client_without_secret(signing: Running) -> None:
    """RFC 8252: a public client proves itself by PKCE alone, at a private-use scheme, and refreshes without secret."""
    asked = {"client_id": "app", "redirect_uri": NATIVE}
    told = sent_back(Browser(signing).open(**asked).answer, NATIVE)
    assert told["error"] == "invalid_request"
    browser = Browser(signing)
    page = browser.open(**asked, **PKCE)
    assert f"form-action 'self' {NATIVE.partition(':')[0]}:;" in page.answer.headers["content-security-policy"]
    code = sent_back(browser.send(page).answer, NATIVE)["code"]
    fields = {"client_id": "app", "redirect_uri": NATIVE, "code_verifier": VERIFIER}
    refuses(exchange(signing, code, **fields, client_secret="guessed"), "invalid_client")
    body = exchange(signing, code, **fields, client_secret="-").json()
    again = {"grant_type": "refresh_token", "client_id": "app", "refresh_token": body["refresh_token"]}
    assert signing.http.post(f"{signing.url}/oauth/token", data=again).status_code == 200
    credentials = {"grant_type": "client_credentials", "client_id": "app", "scope": "user/."}
    refuses(signing.http.post(f"{signing.url}/oauth/token", data=credentials), "unauthorized_client")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param({"response_type": "token"}, "unsupported_response_type", id="C-047 implicit"),
        pytest.param({"response_type": "code token"}, "unsupported_response_type", id="C-047 hybrid"),
        pytest.param({"response_type": "-"}, "invalid_request", id="no response_type"),
        pytest.param({"response_type": ["code", "code"]}, "invalid_request", id="response_type twice"),
        pytest.param({"scope": ["user/.", "user/."]}, "invalid_request", id="scope twice"),
        pytest.param({"scope": "nonsense"}, "invalid_scope", id="C-048 no scope"),
        pytest.param({"client_id": "narrow", "scope": "user/."}, "invalid_scope", id="C-048 nothing left"),
        pytest.param({"client_id": "machine"}, "unauthorized_client", id="a client without this grant"),
        pytest.param({"code_challenge": VERIFIER, "code_challenge_method": "plain"}, "invalid_request", id="plain"),
        pytest.param({"code_challenge": CHALLENGE}, "invalid_request", id="plain by default"),
        pytest.param({"code_challenge_method": "S256"}, "invalid_request", id="method without challenge"),
        pytest.param({**PKCE, "code_challenge": "short"}, "invalid_request", id="no SHA-256"),
        pytest.param({**PKCE, "code_challenge_method": "s256"}, "invalid_request", id="another spelling"),
        pytest.param({"aud": "https://elsewhere.example/fhir"}, "invalid_request", id="aud of another server"),
    ],
)
def test_faults_that_are_told_to_the_client(signing: Running, changes: dict[str, Any], error: str) -> None:
    """Section 4.1: with a known client and address, every fault goes back as error, error_description and state."""
    told = sent_back(Browser(signing).open(**changes).answer)
    assert (told["error"], told["state"]) == (error, "st")
    assert told["error_description"]
    assert "code" not in told


def test_a_state_given_twice_is_not_repeated(signing: Running) -> None:
    """Which of two states is the client's own nobody knows."""
    told = sent_back(Browser(signing).open(state=["one", "two"]).answer)
    assert told["error"] == "invalid_request"
    assert "state" not in told


def test_what_may_be_left_out(signing: Running) -> None:
    """Section 4.1: without a scope the registered ones are asked for, without a state none comes back."""
    browser = Browser(signing)
    told = sent_back(browser.send(browser.open(scope="-", state="-", aud=f"{signing.url}/fhir/R4/")).answer)
    assert set(told) == {"code"}
    assert exchange(signing, told["code"]).json()["scope"] == "user/. offline_access"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"client_id": "unknown"}, id="unknown client"),
        pytest.param({"client_id": "-"}, id="no client"),
        pytest.param({"client_id": ["portal", "portal"]}, id="client twice"),
        pytest.param({"redirect_uri": "-"}, id="no address"),
        pytest.param({"redirect_uri": [BACK, BACK]}, id="address twice"),
        pytest.param({"redirect_uri": [BACK, "https://evil.example"]}, id="a second address"),
        pytest.param({"redirect_uri": f"{BACK}/more"}, id="C-046 longer"),
        pytest.param({"redirect_uri": BACK[:-1]}, id="C-046 shorter"),
        pytest.param({"redirect_uri": f"{BACK}#part"}, id="C-046 fragment"),
        pytest.param({"redirect_uri": f"{BACK}?x=1"}, id="C-046 query"),
        pytest.param({"redirect_uri": BACK.upper()}, id="C-046 case"),
        pytest.param({"redirect_uri": BACK.replace("back", "Back")}, id="C-046 case of the path"),
        pytest.param({"redirect_uri": "https://portal.example@evil.example/back"}, id="C-046 user information"),
        pytest.param({"redirect_uri": "https://portal.example.evil.example/back"}, id="C-046 longer host"),
        pytest.param({"redirect_uri": "https://portal.example:443/back"}, id="C-046 port"),
        pytest.param({"redirect_uri": "https://portal.example/x/../back"}, id="C-046 dots"),
        pytest.param({"redirect_uri": "https://portal.example/%62ack"}, id="C-046 escaped"),
        pytest.param({"redirect_uri": "http://portal.example/back"}, id="C-046 scheme"),
        pytest.param({"redirect_uri": f" {BACK}"}, id="C-046 blank"),
        pytest.param({"redirect_uri": f"{BACK}\r\nx: y"}, id="C-046 a header"),
        pytest.param({"redirect_uri": "javascript:alert(1)"}, id="C-046 script"),
        pytest.param({"redirect_uri": NATIVE}, id="C-046 another client's"),
    ],
)
def test_faults_that_are_told_to_nobody_else(signing: Running, changes: dict[str, Any]) -> None:
    """C-046: without a known client and exactly its address, nobody is sent anywhere."""
    answer = Browser(signing).open(**changes).answer
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert answer.headers["content-type"].startswith("text/html")
    assert "evil" not in answer.text
    assert "form" not in answer.headers["content-security-policy"].partition("form-action")[0]


def test_cancelling(signing: Running) -> None:
    """Section 4.4: a person who cancels needs no password, and the client hears access_denied."""
    browser = Browser(signing)
    told = sent_back(browser.send(browser.open(), decision="cancel", username="", password="").answer)
    assert (told["error"], told["state"]) == ("access_denied", "st")


def test_the_page_is_safe(signing: Running) -> None:
    """The page loads and runs nothing, stands in no frame, is not kept, and escapes all that others wrote."""
    browser = Browser(signing)
    page = browser.open(state='"><script>alert(1)</script>')
    again = browser.send(page, username='"><img src=x onerror=alert(2)>', password="wrong")
    for answer in (page.answer, again.answer):
        headers = answer.headers
        assert "<script" not in answer.text
        assert "<img" not in answer.text
        assert "&lt;b&gt;Portal&lt;/b&gt; &amp; Co" in answer.text
        assert not re.search(r"(?:src|href)=", answer.text.replace("&quot;&gt;&lt;img src=x", ""))
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "form-action 'self' https://portal.example;" in policy
        assert "frame-ancestors 'none'" in policy
        assert re.search(
            r"set-cookie: sign-in=[\w-]{43}; HttpOnly; Path=/; SameSite=lax", f"set-cookie: {headers['set-cookie']}"
        )
    assert "Read and write all health records" in page.answer.text
    assert page.answer.text.index("<label") < page.answer.text.index('name="username"')


STRANGERS = {
    "wrong password": ("dr.osei", "wrong"),
    "no password": ("dr.osei", ""),
    "the hash as password": ("dr.osei", HASH),
    "another spelling": ("DR.OSEI", PASSWORD),
    "unknown user": ("stranger", PASSWORD),
    "a user of another tenant": ("away", PASSWORD),
    "a user without password": ("nobody", "!"),
    "a long name": ("x" * 50_000, "y"),
}


def test_who_does_not_get_in(own: Outside) -> None:
    """A wrong password, an unknown user and one of another tenant look alike; the log names none of them."""
    for kind, (user, password) in STRANGERS.items():
        browser = Browser(own, user, password)
        answer = browser.send(browser.open()).answer
        assert answer.status_code == 403, kind
        assert "User name or password is wrong." in answer.text
        assert "location" not in answer.headers
        assert user not in own.process.log.read_text()
    told = [line for line in own.process.events if line["event"] == "sign-in refused"]
    assert [(line["client"], line["reason"]) for line in told] == [("portal", "password")] * len(STRANGERS)


def test_who_is_sent_by_a_stranger(own: Outside) -> None:
    """An application or return address that is not registered is told on the page and, without its name, in the log."""
    for sent, said in (({"client_id": "stranger"}, "is not registered"), ({"client_id": "portal"}, "a return address")):
        answer = own.http.get(f"{own.url}/oauth/authorize", params={**sent, "redirect_uri": "https://stranger.example"})
        assert answer.status_code == 400
        told = own.process.events[-1]
        assert (told["event"], told["reason"]) == ("sign-in refused", "request")
        assert said in told["error"]
    assert "stranger" not in own.process.log.read_text()


def test_too_many_attempts(own: Outside) -> None:
    """After five wrong passwords the right one waits, twice as long with each; other people are not held up."""
    browser = Browser(own)
    for _ in range(5):
        assert browser.send(browser.open(), password="wrong").answer.status_code == 403
    refused = browser.send(browser.open())
    assert refused.answer.status_code == 429
    assert 0 < int(refused.answer.headers["retry-after"]) <= 15
    assert "location" not in refused.answer.headers
    assert Browser(own, "nurse.lind").code()
    own.advance(16)
    assert browser.code()


@pytest.mark.parametrize("kind", ["none", "forged", "changed", "other browser", "no cookie", "other request"])
def test_a_form_that_this_service_did_not_make(signing: Running, kind: str) -> None:
    """Nobody else's page signs a browser in: a form is sealed for its browser and its request."""
    browser, other = Browser(signing), Browser(signing)
    page = browser.open()
    seal = page.hidden["seal"]
    fields = {
        "none": {"seal": ""},
        "forged": {"seal": "A" * len(seal)},
        "changed": {"seal": ("B" if seal[0] != "B" else "C") + seal[1:]},
        "other browser": {"seal": other.open().hidden["seal"]},
        "other request": {"request": page.hidden["request"].replace("state=st", "state=other")},
    }.get(kind, {})
    own_cookie = browser.cookie
    for decision in ("allow", "cancel"):
        browser.cookie = "" if kind == "no cookie" else own_cookie
        refused = browser.send(page, **fields, decision=decision)
        assert refused.answer.status_code == 400
        assert "location" not in refused.answer.headers
    # The page that comes instead is a good one.
    assert "code" in sent_back(browser.send(refused).answer)


def test_a_form_that_was_open_for_too_long(own: Outside) -> None:
    """A form is good for ten minutes, and so is the one that comes in its place."""
    browser = Browser(own)
    page = browser.open()
    own.advance(601)
    refused = browser.send(page)
    assert refused.answer.status_code == 400
    assert "code" in sent_back(browser.send(refused).answer)


def test_the_form_is_refused_where_the_request_in_it_is(signing: Running) -> None:
    """What the form carries is judged again: a changed address leads nowhere."""
    browser = Browser(signing)
    page = browser.open()
    changed = page.hidden["request"].replace("portal.example", "evil.example")
    for request in (changed, "", "%ff", "client_id=portal"):
        answer = browser.send(page, request=request).answer
        assert answer.status_code == 400
        assert "location" not in answer.headers


def test_a_sandbox_signs_in_by_itself(tmp_path: Path) -> None:
    """Section 4.1: auto_login_user answers with a code at once, and only for clients of that user's tenant."""
    auth = Auth(auto_login_user="dr.osei")
    with running(tmp_path, clients=clients(tmp_path), users=USERS, auth=auth) as service:
        told = sent_back(Browser(service).open().answer)
        assert told["state"] == "st"
        body = exchange(service, told["code"]).json()
        assert asks(service, "/oauth/userinfo", body["access_token"]).json()["name"] == "Ama Osei"
        assert sent_back(Browser(service).open(client_id="lakeside").answer)["error"] == "access_denied"
        assert Browser(service).open(redirect_uri="https://evil.example").answer.status_code == 400


def test_user_information(signing: Running) -> None:
    """Section 4.1: who has signed in, with role and organization; a client's own token speaks for nobody."""
    told = asks(signing, "/oauth/userinfo", tokens(signing)["access_token"])
    assert told.headers["cache-control"] == "no-store"
    expected = {"sub": "dr.osei", "uid": "dr.osei", "name": "Ama Osei", "organization": "riverbend"}
    assert told.json() == {**expected, "role": "physician", "administrativeRole": "physician"}
    assert asks(signing, "/oauth/userinfo", tokens(signing, "nurse.lind")["access_token"]).json()["role"] == "nurse"
    fields = {"grant_type": "client_credentials", "client_id": "portal", "client_secret": SECRET, "scope": "user/."}
    own = signing.http.post(f"{signing.url}/oauth/token", data=fields).json()["access_token"]
    for token, status, error in ((own, 403, "insufficient_scope"), ("garbage", 401, "invalid_token")):
        answer = asks(signing, "/oauth/userinfo", token)
        refuses(answer, error, status)
        assert f'error="{error}"' in answer.headers["www-authenticate"]
    assert signing.http.get(f"{signing.url}/oauth/userinfo").status_code == 401


def test_introspection_and_revocation_need_no_scope(signing: Running) -> None:
    """C-087, C-024: a token that opens nothing of FHIR can be told of and cancelled."""
    token = tokens(signing, scope="offline_access")["access_token"]
    issue(asks(signing, "/fhir/R4/Patient?_count=0", token), 403, "forbidden")
    told = signing.http.get(f"{signing.url}/oauth/info", params={"access_token": token}).json()
    assert set(told) == {"client_name", "client_id", "expires_in", "scope"}
    assert signing.http.get(f"{signing.url}/oauth/cancel", params={"token": token}).status_code == 200
    assert asks(signing, "/fhir/R4/Patient?_count=0", token).status_code == 401


def test_a_role_change_acts_at_once(own: Outside) -> None:
    """C-085: a user's token obeys the user's role as it is configured now, not the client's and not the former one."""
    body = tokens(own, "nurse.lind")
    order = merge_body("a", "b")
    issue(asks(own, "/fhir/R4/Patient/$merge", body["access_token"], json=order), 422, "not-found")
    changed = USERS["nurse.lind"].model_copy(update={"role": Role.ADMINISTRATIVE})
    own.process.reload(own.settings.model_copy(update={"users": {**USERS, "nurse.lind": changed}}))
    issue(asks(own, "/fhir/R4/Patient/$merge", body["access_token"], json=order), 403, "forbidden")
    assert asks(own, "/oauth/userinfo", body["access_token"]).json()["role"] == "administrative"


@pytest.mark.parametrize("gone", ["user", "client", "tenant"])
def test_an_account_that_goes(own: Outside, gone: str) -> None:
    """A user or client that is removed, or a user who moves to another tenant: the tokens open nothing any more."""
    body = tokens(own)
    assert asks(own, "/fhir/R4/Patient?_count=0", body["access_token"]).status_code == 200
    users: dict[str, User] = {name: user for name, user in USERS.items() if gone != "user" or name != "dr.osei"}
    if gone == "tenant":
        users["dr.osei"] = USERS["dr.osei"].model_copy(update={"tenant": "lakeside"})
    left = {name: client for name, client in own.settings.clients.items() if gone != "client" or name != "portal"}
    own.process.reload(own.settings.model_copy(update={"users": users, "clients": left}))
    issue(asks(own, "/fhir/R4/Patient?_count=0", body["access_token"]), 401, "login")
    refuses(own.http.get(f"{own.url}/oauth/info", params={"access_token": body["access_token"]}), "invalid_request")
    refuses(asks(own, "/oauth/userinfo", body["access_token"]), "invalid_token", 401)
    refuses(refresh(own, body["refresh_token"]), "invalid_client" if gone == "client" else "invalid_grant")


@pytest.mark.parametrize("lost", ["user", "client", "grant", "scope"])
def test_what_an_account_loses(own: Outside, lost: str) -> None:
    """A person or a client that is disabled, a grant and scopes that are taken away: at once, codes and tokens too."""
    body, issued = tokens(own), Browser(own).code()
    assert asks(own, "/fhir/R4/Patient?_count=0", body["access_token"]).status_code == 200
    changes: dict[str, dict[str, Any]] = {
        "client": {"disabled": True},
        "grant": {"grants": ("client_credentials", "refresh_token")},
        "scope": {"scopes": ("user/Observation.read",)},
    }
    users = {**USERS, "dr.osei": USERS["dr.osei"].model_copy(update={"disabled": lost == "user"})}
    portal_now = own.settings.clients["portal"].model_copy(update=changes.get(lost, {}))
    clients_now = {**own.settings.clients, "portal": portal_now}
    own.process.reload(own.settings.model_copy(update={"users": users, "clients": clients_now}))
    status, code = (403, "forbidden") if lost == "scope" else (401, "login")
    issue(asks(own, "/fhir/R4/Patient?_count=0", body["access_token"]), status, code)
    refused = {"client": "invalid_client", "scope": "invalid_scope"}.get(lost, "invalid_grant")
    refuses(refresh(own, body["refresh_token"]), refused)
    refused = {"client": "invalid_client", "grant": "unauthorized_client"}.get(lost, "invalid_grant")
    refuses(exchange(own, issued), refused)
    if lost == "user":
        browser = Browser(own)
        assert browser.send(browser.open()).answer.status_code == 403
    if lost == "client":
        assert Browser(own).open().answer.status_code == 400


@pytest.mark.parametrize(
    ("prompt", "code"),
    [("none", "login_required"), ("none login", "invalid_request"), ("login", ""), ("consent", "")],
)
def test_prompts(signing: Running, prompt: str, code: str) -> None:
    """OpenID Connect Core 3.1.2.1: who may be shown nothing is not signed in, and the client is told so."""
    answer = Browser(signing).open(prompt=prompt).answer
    if not code:
        assert answer.status_code == 200
        return
    assert answer.status_code == 302
    told = sent_back(answer)
    assert (told["error"], told["state"]) == (code, "st")


def test_a_refresh_token_used_twice_ends_its_family(signing: Running) -> None:
    """C-036, RFC 9700 section 4.14.2: nobody knows which of the two is the thief, so that both start again."""
    first = tokens(signing)
    second = refresh(signing, first["refresh_token"]).json()
    assert asks(signing, "/fhir/R4/Patient?_count=0", second["access_token"]).status_code == 200
    refuses(refresh(signing, first["refresh_token"]), "invalid_grant")
    refuses(refresh(signing, second["refresh_token"]), "invalid_grant")
    for token in (first["access_token"], second["access_token"]):
        assert asks(signing, "/fhir/R4/Patient?_count=0", token).status_code == 401


def test_only_digests_are_kept(own: Outside) -> None:
    """Neither codes nor tokens nor passwords stand in the database or in the log."""
    code = Browser(own).code()
    body = exchange(own, code).json()
    kept = b"".join(file.read_bytes() for file in own.database.parent.glob("interchange.db*"))
    kept += own.process.log.read_bytes()
    for secret in (code, body["access_token"], body["refresh_token"], PASSWORD, SECRET):
        assert secret[3:].encode() not in kept


def test_the_smart_configuration_is_true(signing: Running) -> None:
    """C-012: what is announced is there, and works as announced."""
    known = signing.http.get(f"{signing.url}/.well-known/smart-configuration").json()
    for name in ("authorization", "token", "userinfo", "introspection", "revocation"):
        assert signing.http.get(known[f"{name}_endpoint"]).status_code not in {404, 500}
    assert known["code_challenge_methods_supported"] == ["S256"]
    assert known["response_types_supported"] == ["code"]
    assert set(known["scopes_supported"]) == {"user/.", "offline_access", "patient.read"}
    for grant in known["grant_types_supported"]:
        fields = {"grant_type": grant, "client_id": "unknown", "client_secret": "x"}
        refuses(signing.http.post(known["token_endpoint"], data=fields), "invalid_client")
    for base in ("/fhir/R4", "/fhir"):
        security = signing.http.get(f"{signing.url}{base}/metadata").json()["rest"][0]["security"]
        told = {one["url"]: one["valueUri"] for one in security["extension"][0]["extension"]}
        assert told["authorize"] == known["authorization_endpoint"]
        assert told["token"] == known["token_endpoint"]
