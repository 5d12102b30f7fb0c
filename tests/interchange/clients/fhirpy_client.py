"""fhirpy, R4 and STU3: it has no sign-in, so it is given a token."""

from fhirpy import SyncFHIRClient

from tests.interchange.clients.task import Browse, Json, Steps, Task


def steps(task: Task, browse: Browse) -> Steps:
    """Return what fhirpy does for each verb."""
    client = SyncFHIRClient(task.base, authorization=f"Bearer {task.service.token('physician')}")
    patients, observations = client.resources("Patient"), client.resources("Observation")

    def save(resource: Json) -> Json:
        return client.resource(resource["resourceType"], **resource).save()

    def included(given: Json) -> Json:
        found = observations.search(patient=given["patient"]).include("Observation", "subject")
        return _resources(found.fetch_raw())

    def once(given: Json) -> Json:
        resource = client.resource("Patient", **given["resource"])
        return patients.search(**given["query"]).get_or_create(resource)[0]

    def put(given: Json, which: str) -> Json:
        resource = client.resource("Patient", **given[which])
        return patients.search(**given["query"]).update(resource)[0]

    return {
        "create": lambda given: save(given["resource"]),
        "read": lambda given: client.reference("Patient", given["id"]).to_resource(),
        "update": lambda given: save(given["resource"]),
        "vread": lambda given: client.execute(f"Patient/{given['id']}/_history/{given['version']}", "get"),
        "history": lambda given: _resources(client.execute(f"Patient/{given['id']}/_history", "get")),
        "search": lambda given: patients.search(**given["query"]).fetch(),
        "page": lambda given: patients.search(**given["query"]).fetch_all(),
        "_include": included,
        "conditional create": lambda given: [once(given), once(given)],
        "conditional update": lambda given: [put(given, "first"), put(given, "second")],
        "delete": lambda given: client.reference("Patient", given["id"]).delete() or None,
        "transaction": lambda given: save(given["bundle"]),
        "$everything": lambda given: _resources(
            client.reference("Patient", given["id"]).execute("$everything", method="get")
        ),
        "$merge": lambda given: client.execute("Patient/$merge", "post", data=given["parameters"]),
    }


def _resources(bundle: Json) -> list[Json]:
    return [entry["resource"] for entry in bundle["entry"]]
