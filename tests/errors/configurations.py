"""Broken files of a configuration: those of the other tests, and one for each error that none of these provokes."""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from engine.config.alerting import FILE, look_at_alerting
from engine.config.channel import UNDECIDED
from engine.config.channels import read_channels
from engine.config.destination import NOWHERE
from engine.config.http_client import OWN_HEADERS
from engine.config.samples import EXPECTED, load_samples
from engine.config.service import ServiceConfiguration, reread
from engine.config.sites import look_at_sites
from engine.config.source import Looked, look, parse, scan, scan_text, validate
from engine.errors import Problem
from engine.pipeline.configuration import Files, examine, lacking
from tests.config import (
    test_account,
    test_alerting,
    test_channels,
    test_connectors,
    test_criteria,
    test_every_value,
    test_fhir_events,
    test_http_client,
    test_laboratories,
    test_relay,
    test_reload,
    test_sites,
)
from tests.errors.mappings import refused
from tests.errors.shipped import write
from tests.errors.told import Told, rows_of, told

SECRET: Final = "swordfish"
GOOD: Final = test_channels.GOOD
OPEN: Final = "http://fhir.example/fhir/R4"
SERVICE: Final = """environment: {environment}
base_url: {base_url}
service_identifier_system: https://cdis.example
tenants: {{riverbend: {tenant}}}
clients: {{one: {{tenant: riverbend, {client}}}}}
users: {{dr.osei: {{tenant: riverbend, role: physician, {user}}}}}
{more}
"""
# What no header can have, and a proxy of another kind.
UNFIT: Final = {"ADT_ENGINE_TEST_HEADER": "x\r\ny", "HTTPS_PROXY": "socks5://h:1", "HTTP_PROXY": "socks5://h:1"}
CLIENTS: Final = (
    *(
        row[0].replace(test_http_client.SENTINEL, SECRET)
        for row in rows_of(test_http_client.test_what_is_refused_says_what_would_do)
    ),
    *(f"headers:\n  {name}: x" for name in ("'X Y'", "X-Amz-Date", *OWN_HEADERS)),
    'headers: {X-Key: "\u00e9"}',
    "headers: {X-A: x, x-a: y}",
    "headers: {X-Key: {env: A, file: b}}",
    f"headers: {{X-Api-Key: {SECRET}}}",
    "headers: {X-Key: {env: ADT_ENGINE_TEST_HEADER}}",
    "proxy: environment",
    "client_certificate: gone.pem\nclient_key: gone.key",
)
CHANNELS: Final = {
    "a relay in the clear": GOOD + "  - {name: ris, type: mllp, host: ris.example, port: 2576}\n",
    "one name for two destinations and filters": GOOD
    + "  - {name: interchange, base_url: 'http://127.0.0.1/b'}\n"
    + "filters:\n  - {rule: a, when: PID-5, do: filter, send_to: [interchange, interchange]}\n"
    + "  - {rule: a, when: PID-5, send_to: [nowhere]}\n  - {rule: b, when: PID-5}\n",
    "open to all": GOOD.replace("127.0.0.1, port", "192.0.2.1, port"),
    "no door": GOOD.replace("  mllp: {host: 127.0.0.1, port: 2575}\n", "  {}\n"),
    "names of certificates": GOOD.replace(
        "port: 2575", "port: 2575, tls: {certificate: a, key: b, client_names: {'sha256:0': LAB}}"
    ),
    "an authority": GOOD + "authorities: {'A|B': 'urn:x'}\n",
    "what a draft left open": GOOD.replace("http://127.0.0.1:8080/fhir/R4", f"https://{NOWHERE}/fhir")
    + f"authorities: {{RVB: '{UNDECIDED}authority:RVB', LKS: 'htp://lks.example'}}\n",
    "components of a source": GOOD + "sources: [REG^RVB]\n",
    "a URL with a password": GOOD.replace("http://", f"http://engine:{SECRET}@"),
    "a secret in a wrong place": GOOD + f"    auth: {SECRET}\n",
    "a secret of two places": GOOD + "    auth: {type: bearer, token: {env: A, file: b}}\n",
    "a short key": GOOD + "keys: {study: {env: ADT_ENGINE_TEST_SECRET}}\n",
    "a secret in the file": GOOD + f"    auth: {{type: bearer, token: {SECRET}}}\n",
    "credentials of another kind": GOOD + "    auth: {type: bearer, token: {env: ADT_ENGINE_TEST_SECRET}, scope: x}\n",
    "another's credentials": GOOD + "    auth: {type: none, token: {env: ADT_ENGINE_TEST_SECRET}, client_id: x}\n",
    "in the clear": GOOD.replace("http://127.0.0.1:8080/fhir/R4", OPEN)
    + "    auth: {type: client_credentials, token_url: 'http://fhir.example/oauth/token', client_id: x, "
    "client_secret: {env: ADT_ENGINE_TEST_SECRET}}\n",
    "a value that a profile forbids": GOOD + "    profile: google\n    if_none_exist: demographics\n",
    "a parameter of no FHIR": GOOD + "    if_none_exist: mrn={value}\n",
    "criteria that are never asked": GOOD
    + "    create: client-id\n    if_none_exist: demographics\n    on_demographic_match: hold\n",
    "a key without its header": GOOD + "    create: idempotency-key\n    if_none_exist: identifier\n",
    "merges where nothing is merged": GOOD
    + "    writes: create-only\n    collapse: {seconds: 5}\n"
    + "    merge_strategy: merge\n    carry_over: [telecom]\n    merge_operation: merge\n",
    "keys like no other": GOOD + "qqqqqqq: 1\nlimits: {qqqqqqq: 1}\nlisten: 3\n",
    "kinds of values": GOOD
    + "allow_merge: [x]\nmerge_limit: {merges: 1.5, minutes: [x]}\nprocessing_ids: 3\nretention: x\nmapping: [x]\n"
    + f"limits: {{segments: [x], connections: {'9' * 5000}}}\nauthorities: x\nversion: '9'\ncontact: {{a: b}}\n",
    "many filters": GOOD + f"filters: [{', '.join(['{rule: a, when: PID-5, do: filter}'] * 51)}]\n",
    "a network that is a block": GOOD.replace("127.0.0.0/8", "{a: b}"),
    "a network that is none": GOOD.replace("127.0.0.0/8", "10.0.0/8"),
    "too deep": "channel: " + "[" * 100 + "\n",
    "no YAML": "channel: {a\n",
    "a tab": "channel:\n\tx: 1\n",
    "no text": "channel: \x00\n",
    "a tag and an alias": "channel: !!set x\nlisten: &a {}\nallow: *a\n? [a]\n: 1\nmode: live\nmode: live\n",
    "two documents": "channel: a\n---\nchannel: b\n",
    "too large": "#" * 1_048_577,
}
MARKED: Final = {"a.yaml": GOOD + "timezone: UTC   # decide: the zone\n# decide: which events\n"}
TWO: Final = {
    "a.yaml": GOOD + "    timeout_seconds: 5\n",
    "b.yaml": GOOD + "    timeout_seconds: 6\n",
    "c.yml": GOOD,
}
DOORS: Final = {
    "a.yaml": GOOD.replace("mllp: {host: 127.0.0.1, port: 2575}", "http: {path: x}"),
    "b.yaml": GOOD.replace("mllp: {host: 127.0.0.1, port: 2575}", "http: {path: x}").replace("riverbend", "lakeside"),
}
SERVICES: Final = {
    "a sandbox's in production": SERVICE.format(
        environment="production",
        base_url="http://cdis.example",
        tenant="{network_mode: mocked, laboratories: {lab-1: {connector: {type: simulated}}}, adt: {lookup_on: [A01]}}",
        client="grants: [authorization_code], redirect_uris: ['http://portal.example/back']",
        user="",
        more="auth: {auto_login_user: dr.osei}\ntest_hooks: true\nfeature_flags: [validate]\n",
    ),
    "tls in the clear": SERVICE.format(
        environment="sandbox", base_url="http://cdis.example", tenant="{}", client="secret: {env: X}", user="",
        more="tls: {certificate: x, key: y}\n",
    ),
    "a laboratory's id": SERVICE.format(
        environment="sandbox", base_url="https://cdis.example:99999", tenant="{laboratories: {'a b': {connector: {}}}}",
        client="secret: {env: X}", user="", more="qqqqqqq: 1\n",
    ),
    "a key that proves nothing": SERVICE.format(
        environment="sandbox", base_url="https://cdis.example", tenant="{organization: {name: '" + "x" * 201 + "'}}",
        client="jwks: {keys: [{kty: RSA}, {kty: EC, crv: P-384, x: x, y: y}]}", user="", more="",
    ),
    "shapes": SERVICE.format(
        environment="[x]", base_url="https://cdis.example", tenant="x",
        client="secret: x, grants: x, origins: [3], redirect_uris: ['x']", user="password_hash: [x]", more="jobs: []\n",
    ),
}  # fmt: skip
SAMPLES: Final = {
    EXPECTED: """identifier_system: urn:x
samples:
  - {file: b.hl7, shows: x, expect: {ack: AA, outcome: delivered}}
  - {file: a.hl7, shows: x, expect: {ack: AA, outcome: delivered}}
""",
    "c.hl7": "MSH|",
}
WRONG_SAMPLES: Final = {
    EXPECTED: "identifier_system: urn:x\n"
    "samples:\n  - {file: B.txt, shows: x, expect: {ack: XX, outcome: x, error: q}}\n"
}
# Types that STU3 does not have, with what each requires.
R4_ALONE: Final = {
    "biologicallyderivedproduct": "resource: BiologicallyDerivedProduct\n",
    "devicedefinition": "resource: DeviceDefinition\n",
    "examplescenario": "resource: ExampleScenario\nnew: {status: draft}\n",
    "insuranceplan": "resource: InsurancePlan\n",
    "invoice": "resource: Invoice\npatient: subject\nnew: {status: draft}\n",
    "organizationaffiliation": "resource: OrganizationAffiliation\n",
}
STU3: Final = {
    "channels/a.yaml": GOOD + "    fhir: STU3\nmapping: invoices\n",
    "channels/b.yaml": GOOD.replace("riverbend", "b").replace("2575", "0").replace("interchange", "c")
    + "mapping: qqqqqqq\n",
    "channels/c.yaml": GOOD.replace("riverbend", "c").replace("2575", "0").replace("interchange", "d")
    + "    auth: {type: private_key_jwt, token_url: 'https://a.example', client_id: x, "
    "private_key: {env: ADT_ENGINE_TEST_SECRET}}\nmapping: invoices\n",
    **{
        f"channels/ward-{number}.yaml": GOOD.replace("riverbend", f"ward-{number}").replace("2575", "0")
        for number in range(5)
    },
    "channels/alerts.yaml": "channels: {qqqqqqq: {no_traffic_minutes: 1}}\nqqqqqqq: 1\n",
    **{f"mappings/other-{number}.yaml": "" for number in range(5)},
    "mappings/invoices.yaml": "mapping: invoices\n"
    f"events: {{A01: {{do: [upsert patient, {', '.join(f'upsert {type_}' for type_ in R4_ALONE)}]}}}}\n",
    **{
        f"mappings/resources/{type_}.yaml": f"identity: {{type: AN, keys: [PID-18]}}\nelements: {{}}\n{lines}"
        for type_, lines in R4_ALONE.items()
    },
    "mappings/tests/own.yaml": "mapping: invoices\ntests: [{message: PID|1||1, expect: {rule: b}}]\n",
}
# A number under another system than the channel has it searched.
SYSTEM: Final = {
    "channels/a.yaml": GOOD + "mapping: numbers\n",
    "mappings/numbers.yaml": "mapping: numbers\nevents: {A01: {do: [upsert patient]}}\n",
    "mappings/resources/patient.yaml": "resource: Patient\nreplaces: shipped/patient\n"
    "elements: {identifier: [{system: urn:x, value: PID-3.1}]}\n",
}

# A destination whose mapping says otherwise who somebody is, in each way; files in a misspelt folder, too.
OTHERWISE: Final = {
    "channels/a.yaml": GOOD + "    mapping: registry\n",
    "mappings/registry.yaml": "mapping: registry\nextends: shipped/adt\nidentity: {from: [PID-3, PID-2]}\n"
    "events:\n  A40: {rule: merge, do: update patient}\n  A17: {rule: swap, do: update patient}\n"
    "  A01: {rule: admit, do: upsert patient, each: PID}\n",
}
# Two authorities of one system, and two channels at one server, that have numbers searched in other forms.
FORMS: Final = {
    "channels/a.yaml": GOOD + "mapping: forms\nauthorities: {A: urn:a, B: urn:a, C: urn:c}\n",
    "channels/b.yaml": GOOD.replace("riverbend", "other").replace("2575", "2576") + "authorities: {C: urn:c}\n",
    "mappings/forms.yaml": "mapping: forms\nextends: shipped/adt\nidentity:\n"
    "  normalise: {A: {pad: 8}, B: {pad: 9}, C: {leading_zeros: strip, pad: 8}}\n",
}
# A destination whose mapping extends a pack that says otherwise who somebody is.
OF_A_PACK: Final = {
    "channels/a.yaml": GOOD + "    mapping: german\n",
    "mappings/german.yaml": "mapping: german\nextends: packs/isik\n",
}
NONE_OF_THEM: Final = {"channels/a.yaml": GOOD + "    mapping: oru\n"}
ASTRAY: Final = {
    **OTHERWISE,
    "mappings/registry-2/resources/patient.yaml": "resource: Patient\nextends: shipped/patient\n",
}


def told_of_configurations(folder: Path, shipped: Path) -> Iterator[Told]:
    """Yield what is told of channels, alerts, the service's file, and the samples."""
    with patch.dict(os.environ, {"ADT_ENGINE_TEST_SECRET": SECRET}):
        yield from _told_of_channels(folder / "channels")
        yield from _events(folder / "events")
        yield from _told_of_alerts(folder / "alerts")
        yield from _told_of_sites(folder / "sites")
        yield from _told_of_services(folder / "services")
        yield from _told_of_files(folder / "files")
        yield from _told_of_samples(folder / "samples")
        own = write(folder / "all", STU3)
        with patch("engine.pipeline.configuration.shipped", lambda _: shipped):
            files = Files(own / "channels", own / "mappings", own / "data")
            yield from told("all at once", own, examine(files, in_force=frozenset()).problems)
            own = write(folder / "systems", SYSTEM)
            files = Files(own / "channels", own / "mappings", own / "data")
            yield from told("another system", own, examine(files, machine=False).problems)
        for row, written in (
            ("another identity", OTHERWISE),
            ("another form", FORMS),
            ("a pack's identity", OF_A_PACK),
            ("a folder of no mapping", ASTRAY),
            ("no message", NONE_OF_THEM),
        ):
            own = write(folder / row, written)
            files = Files(own / "channels", own / "mappings", own / "data")
            yield from told(row, own, examine(files, machine=False).problems)


def _events(folder: Path) -> Iterator[Told]:
    """Yield what is told of channels that take the events of a FHIR server."""
    base = test_fhir_events.EVENTS
    in_the_clear = {"source": "subscription", "endpoint": "http://hub.example", "token": {"env": "TOKEN"}}
    channels = [[base | row[0]] for row in rows_of(test_fhir_events.test_what_does_not_go_with_events)]
    channels += [[base, base | {"channel": "second-back"}], [base | test_fhir_events.fhir(**in_the_clear)]]
    channels += [[base | {"destinations": [test_fhir_events.EHR | {"outgoing": {"mapping": "nobodys"}}]}]]
    channels += [[base | test_fhir_events.fhir(types=["Patient", "Patient"])]]
    feed = {"listen": {"http": {"path": "r"}}, "destinations": [test_fhir_events.EHR | {"outgoing": {}}]}
    channels += [[base | feed]]
    for number, files in enumerate(channels):
        texts = {f"{at}.yaml": json.dumps(one, indent=1) for at, one in enumerate(files)}
        own = write(folder / f"events {number}", {f"channels/{name}": text for name, text in texts.items()})
        examined = examine(Files(own / "channels", None, own / "data"), machine=False)
        yield from told(f"events {number}", own, examined.problems + examined.warnings)


def _asked(looked: Iterable[Looked[Any]]) -> tuple[Problem, ...]:
    """Return what a check tells of files, but for their mistakes: what is open, what this machine lacks, warnings."""
    return tuple(one for file in looked for one in (*lacking(file), *file.ask("undecided"), *file.ask("warnings")))


def _channel(row: str, folder: Path, files: dict[str, str]) -> list[Told]:
    """Return what is told of a folder of channel files."""
    own = write(folder / row.replace("/", "-"), files)
    read, problems = read_channels(own)
    return told(row, own, problems + _asked(read))


def _told_of_channels(folder: Path) -> Iterator[Told]:
    for key, value, *_ in test_every_value.CHANNEL_ROWS:
        text, *_place = test_every_value.placed(test_every_value.channel_for(key), key, value)
        yield from _channel(f"channel {key}", folder, {"a.yaml": text})
    for number, row in enumerate(rows_of(test_channels.test_each_mistake_is_named_with_its_place)):
        yield from _channel(f"a channel {number}", folder, {"a.yaml": row[0]})
    apart = test_relay.test_what_does_not_go_together_is_named_with_its_place
    for number, row in enumerate(rows_of(apart)):
        yield from _channel(f"a relay {number}", folder, {"a.yaml": row[0]})
    for number, row in enumerate(rows_of(test_criteria.test_templates_that_are_refused)):
        text = f"{GOOD}    if_none_exist: {json.dumps(row[0])}\n"
        yield from _channel(f"criteria {number}", folder, {"a.yaml": text})
    for row, text in CHANNELS.items():
        yield from _channel(row, folder, {"a.yaml": text})
    yield from told("a mark", folder / "a mark", tuple(scan(write(folder / "a mark", MARKED) / "a.yaml").undecided()))
    for number, text in enumerate(CLIENTS):
        lines = "".join(f"    {line}\n" for line in text.splitlines())
        with patch.dict(os.environ, UNFIT):
            yield from _channel(f"an HTTP client {number}", folder, {"a.yaml": GOOD + lines})
    yield from _channel("two files", folder, TWO)
    yield from _channel("two doors", folder, DOORS)
    yield from _channel("no file", folder, {"notes.txt": "x"})
    (folder / "a folder" / "a.yaml").mkdir(parents=True)
    yield from told("a folder", folder / "a folder", read_channels(folder / "a folder")[1])
    yield from told("nowhere", folder, read_channels(folder / "nowhere")[1])


def _told_of_alerts(folder: Path) -> Iterator[Told]:
    rows = test_every_value.ALERT_ROWS
    base = {"webhook": {"url": "https://alerts.example"}}
    texts = {f"alerts {key}": test_every_value.placed(base, key, value)[0] for key, value, *_ in rows}
    (mark,) = test_alerting.test_alerts_go_to_https_only.pytestmark
    hooks = [*mark.args[1], "https://alerts.example:99999/hook"]
    texts |= {f"hook {number}": f"webhook: {{url: '{url}'}}\n" for number, url in enumerate(hooks)}
    for row, text in {**texts, "alerts that are no YAML": "a: ["}.items():
        own = write(folder / row, {FILE: text})
        looked = look_at_alerting(own)
        yield from told(row, own, looked.problems + _asked([looked]))


def _told_of_sites(folder: Path) -> Iterator[Told]:
    (mark,) = test_sites.test_a_token_goes_to_no_other_address.pytestmark
    texts = [f"sites: [{{name: North, url: '{url}', token: {{env: NORTH}}}}]" for url in mark.args[1]]
    texts += [row[0] for row in rows_of(test_sites.test_a_mistake_is_named_with_its_place)]
    for number, text in enumerate([*texts, "a: ["]):
        own = write(folder / str(number), {"sites.yaml": text})
        looked = look_at_sites(own)
        yield from told(f"sites {number}", own, looked.problems + _asked([looked]))


def _told_of_services(folder: Path) -> Iterator[Told]:
    for key, value, *_ in test_every_value.SERVICE_ROWS:
        text, *_place = test_every_value.placed(test_every_value.service_for(key), key, value)
        yield from _service(f"service {key}", folder, text)
    for number, (client, _) in enumerate(rows_of(test_account.test_clients_that_are_refused)):
        yield from _service(f"a client {number}", folder, SERVICE.format(**_riverbend(client=client)))
    for number, hashed in enumerate((test_account.HASH, f"'{SECRET}'")):
        yield from _service(f"a hash {number}", folder, SERVICE.format(**_riverbend(user=f"password_hash: {hashed}")))
    tenants = [{"connectors": {"north": row[0]}} for row in rows_of(test_connectors.test_keys_that_do_not_fit)]
    tenants += [test_laboratories.at(row[0]) for row in rows_of(test_laboratories.test_keys_that_do_not_fit)]
    tenants += [row[0] for row in rows_of(test_connectors.test_what_is_warned_of)]
    tenants += [test_laboratories.at({**test_laboratories.LINE, "tls": False})]
    for number, tenant in enumerate(tenants):
        yield from _service(f"a tenant {number}", folder, SERVICE.format(**_riverbend(tenant=json.dumps(tenant))))
    for row, text in SERVICES.items():
        yield from _service(row, folder, text)
    running = validate(parse(test_reload.TEXT, "i.yaml"), ServiceConfiguration)
    text = test_reload.TEXT.replace(", lakeside: {}", "") + "max_connections: 9\n"
    own = write(folder / "running", {"interchange.yaml": text})
    source = scan(own / "interchange.yaml")
    yield from told("a running service", own, refused(lambda: reread(source, running)))


def _riverbend(**said: str) -> dict[str, str]:
    """Return what a service's file says where nothing else is said."""
    usual = {"environment": "sandbox", "base_url": "https://cdis.example", "tenant": "{}", "user": "", "more": ""}
    return {**usual, "client": "secret: {env: X}", **said}


def _service(row: str, folder: Path, text: str) -> list[Told]:
    """Return what is told of a service's file."""
    own = write(folder / row, {"interchange.yaml": text})
    looked = look(scan(own / "interchange.yaml"), ServiceConfiguration)
    return told(row, own, looked.problems + _asked([looked]))


def _told_of_files(folder: Path) -> Iterator[Told]:
    """Yield what is told of the files that a configuration names."""
    write(folder, {"open": SECRET, "empty": " ", "jwks": "{", "list": "{}", "none": '{"keys": []}', "no.pem": "x"})
    (folder / "bytes").write_bytes(b"\xff")
    for name in ("empty", "bytes"):
        (folder / name).chmod(0o600)
    for name in ("open", "empty", "bytes", "nowhere"):
        text = f"{GOOD}    auth: {{type: bearer, token: {{file: {folder / name}}}}}\n"
        yield from _channel(f"a secret that is {name}", folder, {"a.yaml": text})
    token = f"token: {{file: {folder}/empty}}"
    if os.getuid() == 0:
        os.chown(folder / "empty", 12345, -1)
    with patch("os.getuid", lambda: 54321):
        yield from _channel("another's secret", folder, {"a.yaml": f"{GOOD}    auth: {{type: bearer, {token}}}\n"})
    for name in ("jwks", "list", "none", "nowhere"):
        text = SERVICE.format(**_riverbend(client=f"jwks: {{file: {folder / name}}}"))
        yield from _service(f"keys that are {name}", folder, text)
    for row, (certificate, key) in _pairs(folder).items():
        tls = f"port: 2575, tls: {{certificate: {certificate}, key: {key}, client_ca: {folder}/no.pem}}"
        yield from _channel(row, folder, {"a.yaml": GOOD.replace("port: 2575", tls)})
    signing = folder / "signing.key"
    private = rsa.generate_private_key(65537, 2048)
    signing.touch(0o600)
    signing.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    text = f"certificate: {folder}/one.pem, private_key: {{file: {signing}}}, scope: x"
    auth = f"{{type: entra_certificate, token_url: 'https://a.example', client_id: x, {text}}}"
    yield from _channel("another's certificate", folder, {"a.yaml": f"{GOOD}    auth: {auth}\n"})


def _pairs(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Write certificates and keys, and return those that do not go together."""
    authority = trustme.CA()
    for name in ("one", "other"):
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")
    )
    (folder / "locked.key").write_bytes(locked)
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it must be refused
    _write_weak(weak, folder / "weak.pem")
    (folder / "weak.key").write_bytes(weak.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    one = folder / "one.pem"
    return {
        "no certificate": (folder / "no.pem", folder / "no.pem"),
        "an encrypted key": (one, folder / "locked.key"),
        "another's key": (one, folder / "other.key"),
        "a weak key": (folder / "weak.pem", folder / "weak.key"),
    }


def _write_weak(key: rsa.RSAPrivateKey, file: Path) -> None:
    """Write a certificate of a key that TLS refuses."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))


def _told_of_samples(folder: Path) -> Iterator[Told]:
    for row, files in {"samples": SAMPLES, "wrong samples": WRONG_SAMPLES}.items():
        own = write(folder / row, files)
        yield from told(row, own, refused(lambda own=own: load_samples(own)))
    text = "#" * 1_048_577
    own = write(folder / "large", {"a.yaml": text})
    yield from told("a large text", own, refused(lambda: scan_text(text, str(own / "a.yaml"))))
