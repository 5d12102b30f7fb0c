"""`adt-engine interchange simulate`: charts of invented people, as Bundles that the service takes."""

from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from engine.errors import UsageError
from engine.interchange.clinical.synthetic.chart import synthetic_chart, transaction
from engine.interchange.web.bundles.step import MOST
from engine.terminal.options import AsJson
from engine.terminal.table import print_json

# A Bundle holds the patient and the care team in addition to the facts.
MOST_FACTS: Final = MOST - 10


def simulate(
    folder: Annotated[Path, typer.Option(help="Write one Bundle per patient into this folder, which must be empty.")],
    patients: Annotated[int, typer.Option(min=1, max=100_000, help="How many people.")] = 10,
    facts: Annotated[int, typer.Option(min=0, max=MOST_FACTS, help="Facts in each chart; from 60 on every type.")] = 60,
    seed: Annotated[int, typer.Option(help="The same seed produces the same bytes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate clinical charts: one R4 transaction Bundle per invented person, to be posted to a sandbox's base.

    Visits, problems, allergies, medications, results, vital signs, procedures, immunizations, habits, family, goals,
    plans, insurance and notes. Every name and number is made up. Posted again, a Bundle makes a second record.

    Example: adt-engine interchange simulate --patients 20 --seed 7 --folder charts
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, patients + 1):
        bundle = transaction(synthetic_chart(f"{seed}/{number}", facts=facts))
        (folder / f"{number:06d}.json").write_bytes(orjson.dumps(bundle))
    if as_json:
        print_json({"charts": patients, "facts": facts, "folder": str(folder)})
        return
    typer.echo(f"{patients} charts of {facts} facts in {folder}")
