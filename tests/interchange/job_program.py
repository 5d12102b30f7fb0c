"""The service with one more operation, `POST Patient/{id}/$work`, and its work: for tests that kill the process.

What a job keeps is one Organization by the name of the job: that there is one for each job that is done, and none for
others, says that nothing was lost, and nothing done twice.
"""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from engine.config.service import ServiceConfiguration
from engine.config.source import scan, validate
from engine.interchange.app.application import WORK as WORKS
from engine.interchange.app.process import serve
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobResult, Report
from engine.interchange.kernel.exact import write_json
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.transaction import Transaction
from engine.interchange.tokens.role import RoleRule
from engine.interchange.web.http import route
from engine.telemetry import configure
from engine.terminal.faults import arm_as_asked

# Its rights are those of `$everything`.
KIND = "everything"


async def work(service: Service, job: AsyncJob, report: Report) -> JobResult:
    """Take some time, or end the process; then keep what says that it was done."""
    await report({"step": 1})
    if job.asked["kills"]:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(job.asked["seconds"])

    def keep(transaction: Transaction) -> None:
        made = {"resourceType": "Organization", "name": job.id}
        transaction.create("Organization", service.new_id(), made)

    return JobResult(write_json({"resourceType": "Parameters", "id": job.id}), keep)


async def asked(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST Patient/{id}/$work with the handle of a job."""
    parameters: dict[str, Any] = dict(request.query)
    told = {"seconds": float(parameters.get("seconds", 0)), "kills": "kills" in parameters}
    return await ask(service, request, KIND, request.id, told)


# A write, so that its row of the access log is in the commit of the job.
WORK = Interaction(
    "Patient", KIND, InteractionLevel.INSTANCE, "POST", RequiredAccess.WRITE, RoleRule.CHART, asked, operation="$work"
)


def main() -> None:
    """Run the service as its command does."""
    parser = argparse.ArgumentParser()
    for name in ("--config", "--port", "--database"):
        parser.add_argument(name, required=True)
    given = parser.parse_args(sys.argv[2:])
    route.INTERACTIONS = (*route.INTERACTIONS, WORK)  # type: ignore[misc]
    configure()
    arm_as_asked()
    serve(
        validate(scan(Path(given.config)), ServiceConfiguration),
        host="127.0.0.1",
        port=int(given.port),
        database=given.database,
        announce=lambda url: sys.stdout.write(f"interchange ready at {url}\n") and sys.stdout.flush(),
        reread=lambda running: running,
        works={**WORKS, KIND: work},
    )
    sys.exit(0)
