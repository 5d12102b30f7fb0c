"""fhirclient (SMART's client for Python), R4: signed in by code with PKCE."""

from collections.abc import Iterable

from fhirclient.client import FHIRClient
from fhirclient.models.bundle import Bundle
from fhirclient.models.fhirabstractresource import FHIRAbstractResource
from fhirclient.models.observation import Observation
from fhirclient.models.patient import Patient

from tests.interchange.clients.task import Browse, Json, Steps, Task


def steps(task: Task, browse: Browse) -> Steps:
    """Return what fhirclient does for each verb."""
    app = task.given["authorization code"]
    settings = {"app_id": app["client"], "redirect_uri": app["redirect"], "scope": app["scope"], "api_base": task.base}
    smart = FHIRClient(settings=settings)
    smart.wants_patient = False  # there is no launch from a patient's chart
    server = smart.server
    server.session.trust_env = False
    # It closes nothing by itself.
    server.session.headers["connection"] = "close"

    def discover(_: Json) -> Json:
        smart.prepare()
        found = server.state["auth"]
        return {"authorize": found["authorize_uri"], "token": found["token_uri"]}

    def sign_in(_: Json) -> Json:
        smart.handle_callback(browse(smart.authorize_url))
        return {"token": server.auth.access_token}

    def update(given: Json) -> Json:
        return Patient(given["resource"]).update(server)

    def delete(given: Json) -> Json:
        return Patient.read(given["id"], server).delete(server)

    def included(given: Json) -> Json:
        found = Observation.where({"patient": given["patient"]}).include("subject")
        return _json(found.perform_resources_iter(server))

    def history(given: Json) -> Json:
        return _resources(Bundle.read_from(f"Patient/{given['id']}/_history", server))

    return {
        "discovery": discover,
        "authorization code": sign_in,
        "create": lambda given: Patient(given["resource"]).create(server),
        "read": lambda given: Patient.read(given["id"], server).as_json(),
        "update": update,
        "vread": lambda given: Patient.read_from(
            f"Patient/{given['id']}/_history/{given['version']}", server
        ).as_json(),
        "history": history,
        "search": lambda given: _json(Patient.where(given["query"]).perform_resources_iter(server)),
        "page": lambda given: [_resources(page) for page in Patient.where(given["query"]).perform_iter(server)],
        "_include": included,
        "delete": delete,
        "transaction": lambda given: Bundle(given["bundle"]).create(server),
        "$everything": lambda given: _resources(Bundle.read_from(f"Patient/{given['id']}/$everything", server)),
        "$merge": lambda given: server.post_json("Patient/$merge", given["parameters"]).json(),
    }


def _json(found: Iterable[FHIRAbstractResource]) -> list[Json]:
    return [one.as_json() for one in found]


def _resources(bundle: Bundle) -> list[Json]:
    return _json(entry.resource for entry in bundle.entry)
