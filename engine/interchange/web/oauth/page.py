"""The sign-in's pages: plain HTML, nothing loaded from elsewhere, no script."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Final
from urllib.parse import urlsplit

from engine.interchange.tokens.scope import ANY, GROUPS, right

STYLE: Final = """
:root{color-scheme:light dark;--ink:#14262b;--soft:#4d636a;--line:#c3d0d3;--paper:#fff;--ground:#eef3f4;
--accent:#0b5f6b;--accent-ink:#fff;--alarm:#9b1c1c;--alarm-ground:#fdeceb}
@media(prefers-color-scheme:dark){:root{--ink:#e6eff1;--soft:#a3b8be;--line:#3b5157;--paper:#16252a;--ground:#0d181b;
--accent:#5cc3d1;--accent-ink:#06191d;--alarm:#ffb4ab;--alarm-ground:#3b1512}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1rem;background:var(--ground);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:26rem;padding:1.75rem;background:var(--paper);
border:1px solid var(--line);border-radius:.75rem;overflow-wrap:anywhere}
.service{margin:0 0 1rem;color:var(--soft);font-size:.875rem}
h1{margin:0 0 .5rem;font-size:1.375rem;line-height:1.25}
h2{margin:1.25rem 0 .25rem;font-size:1rem}
ul{margin:0 0 1.25rem;padding-left:1.25rem}
code{display:block;color:var(--soft);font-size:.8125rem}
label{display:block;margin-top:.875rem;font-weight:600}
input{width:100%;margin-top:.25rem;padding:.625rem .75rem;font:inherit;color:inherit;background:transparent;
border:1px solid var(--soft);border-radius:.375rem}
button{padding:.625rem 1.25rem;font:inherit;font-weight:600;border:1px solid var(--accent);border-radius:.375rem;
cursor:pointer}
button[value=allow],button[value=find]{background:var(--accent);color:var(--accent-ink)}
button[value=cancel]{background:transparent;color:var(--accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.people{list-style:none;padding:0}
.people button{width:100%;margin-bottom:.5rem;text-align:left;background:transparent;color:var(--accent)}
.choice{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.5rem}
.alarm{margin:1rem 0 0;padding:.625rem .75rem;color:var(--alarm);background:var(--alarm-ground);border-radius:.375rem}
"""
STYLE_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()
FLAGS: Final = {
    "patient360": "Use Patient360 retrieval",
    "offline_access": "Stay connected when you are away",
    "openid": "Know who you are",
    "profile": "See your name and role",
    "fhirUser": "See who you are in the health record",
    "launch/patient": "Work with one patient, whom you choose next",
    "place_orders": "Place orders",
}


@dataclass(frozen=True, slots=True)
class SignInPage:
    """Content of the sign-in page: `hidden` is a hidden field of the form, `alarm` the error, '' for none."""

    action: str
    application: str
    scopes: tuple[str, ...]
    hidden: Mapping[str, str]
    login: str = ""
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class PatientOption:
    """A patient to choose: the id, and a label."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class PatientChoicePage:
    """Content of the patient page: the search as entered, the matches, and a message."""

    action: str
    application: str
    hidden: Mapping[str, str]
    entered: Mapping[str, str]
    people: tuple[PatientOption, ...] = ()
    alarm: str = ""


ENTRIES: Final = (
    ("family", "Family name", ""),
    ("given", "Given name", ""),
    ("birthdate", "Date of birth", ' placeholder="1984-02-29"'),
    ("identifier", "Record number", ""),
)


def patient_page(choice: PatientChoicePage) -> str:
    """Return the page for the choice of a patient."""
    alarm = f'<p class="alarm" role="alert" id="alarm">{escape(choice.alarm)}</p>' if choice.alarm else ""
    options = "".join(
        f'<li><button name="patient" value="{escape(one.id)}">{escape(one.text)}</button></li>' for one in choice.people
    )
    people = f'<h2 id="found">Patients found</h2><ul class="people" aria-labelledby="found">{options}</ul>'
    entries = "".join(
        f'<label for="{name}">{label}</label><input id="{name}" name="{name}" autocomplete="off" maxlength="256"'
        f' value="{escape(choice.entered.get(name, ""))}"{more}>'
        for name, label, more in ENTRIES
    )
    return _page(
        f"Choose a patient for {choice.application}",
        f"""<h1>Choose a patient</h1>
<p>{escape(choice.application)} will work with the record of the patient you choose.</p>
<form method="post" action="{escape(choice.action)}">{_hidden(choice.hidden)}{alarm}{people if options else ""}
{entries}
<div class="choice"><button name="decision" value="find">Search</button>
<button name="decision" value="cancel">Cancel</button></div></form>""",
    )


def sign_in_page(form: SignInPage) -> str:
    """Return the page for sign-in and consent."""
    application = escape(form.application)
    alarm = f'<p class="alarm" role="alert" id="alarm">{escape(form.alarm)}</p>' if form.alarm else ""
    focus = " autofocus" + (' aria-describedby="alarm"' if form.alarm else "")
    first, second = ("", focus) if form.login else (focus, "")
    scopes = "".join(f"<li>{escape(meaning(scope))} <code>{escape(scope)}</code></li>" for scope in form.scopes)
    return _page(
        f"{'Not signed in: ' if form.alarm else ''}Sign in for {form.application}",
        f"""<h1>Sign in for {application}</h1>
<h2 id="asked">{application} asks to</h2>
<ul aria-labelledby="asked">{scopes}</ul>
<form method="post" action="{escape(form.action)}">{_hidden(form.hidden)}{alarm}
<label for="username">User name</label>
<input id="username" name="username" value="{escape(form.login)}" autocomplete="username" autocapitalize="none"
 spellcheck="false" maxlength="256" required{first}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024" required{second}>
<div class="choice"><button name="decision" value="allow">Sign in and allow</button>
<button name="decision" value="cancel" formnovalidate>Cancel</button></div></form>""",
    )


def message_page(title: str, text: str) -> str:
    """Return a page with a message only."""
    return _page(title, f"<h1>{escape(title)}</h1><p>{escape(text)}</p>")


def meaning(scope: str) -> str:
    """Return a scope in words."""
    granted = right(scope)
    if granted is None or not granted.access:
        return FLAGS.get(scope, scope)
    verb = " and ".join(word for word in ("read", "write") if GROUPS[word] & granted.access).capitalize()
    if granted.type == ANY:
        return f"{verb} all health records"
    return f"{verb} {scope.partition('/')[2].partition('.')[0] or granted.type} records"


def security_policy(redirect_uri: str) -> str:
    """Return the Content-Security-Policy of a page; `redirect_uri` is '' without a redirect to a client.

    Browsers apply `form-action` to a form's redirect too, so that it includes the client's origin.
    """
    parts = urlsplit(redirect_uri)
    web = parts.scheme in {"http", "https"}
    origin = (f" {parts.scheme}://{parts.netloc}" if web else f" {parts.scheme}:") if redirect_uri else ""
    return (
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; form-action 'self'{origin};"
        " frame-ancestors 'none'; base-uri 'none'"
    )


def _hidden(fields: Mapping[str, str]) -> str:
    return "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in fields.items()
    )


def _page(title: str, content: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">
<style>{STYLE}</style></head>
<body><main><p class="service">Clinical Data Interchange Service</p>
{content}
</main></body></html>
"""
