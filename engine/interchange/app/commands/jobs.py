"""`adt-engine interchange jobs`: the asynchronous jobs of the service, whether it runs or not."""

from dataclasses import asdict
from typing import Annotated

import typer

from engine.clock import now
from engine.interchange.jobs.overview import JobOverview, cancel_job, list_jobs, show_job
from engine.interchange.store.job import JobState
from engine.interchange.store.place import place_of
from engine.terminal.options import DATABASE, AsJson, Database
from engine.terminal.table import output, print_json, print_line, table, utc

Tenant = Annotated[str, typer.Option("--tenant", help="Only jobs of this tenant.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id, the last part of the handle's address.")]

app = typer.Typer(help="List, show and cancel the service's jobs.", no_args_is_help=True)


@app.command(name="list")
def list_(
    tenant: Tenant = "",
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.")] = None,
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """List the jobs, oldest first: those that have not ended, and those that ended within the last day.

    Example: adt-engine interchange jobs list --state running --database sqlite:///adt-data/interchange.db
    """
    jobs = list_jobs(place_of(database), tenant, state or "")
    if as_json:
        print_json([asdict(job) for job in jobs])
        return
    headings = ("Job", "Tenant", "Kind", "Patient", "State", "Asked (UTC)", "Progress")
    rows = ((job.id, job.tenant, job.kind, job.patient, job.state, utc(job.asked_at), job.progress) for job in jobs)
    output().print(table(headings, rows))


@app.command()
def show(job: JobId, tenant: Tenant = "", database: Database = DATABASE, as_json: AsJson = False) -> None:
    """Show a job: what it is, where it is, how often it was taken up, and why it failed; neither question nor result.

    Example: adt-engine interchange jobs show 9c1d5f0e7a2b4c6d8e0f1a2b
    """
    _print(show_job(place_of(database), job, tenant), as_json=as_json)


@app.command()
def cancel(job: JobId, tenant: Tenant = "", database: Database = DATABASE, as_json: AsJson = False) -> None:
    """Cancel a job that has not ended; a service that works on it stops soon. The access log has a row of it.

    Example: adt-engine interchange jobs cancel 9c1d5f0e7a2b4c6d8e0f1a2b
    """
    _print(cancel_job(place_of(database), job, now, tenant), as_json=as_json)


def _print(seen: JobOverview, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(seen))
        return
    for name, value in asdict(seen).items():
        text = "; ".join(value) if isinstance(value, tuple) else str(value)
        if text:
            print_line(f"{name.replace('_', ' ')}: {text}")
