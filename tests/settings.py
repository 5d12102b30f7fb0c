"""The tables of settings in the documents, generated: `python -m tests.settings` writes them from the models."""

from pathlib import Path
from typing import Final

from pydantic import BaseModel

from engine.config.alerting import Alerting
from engine.config.channel import Channel
from engine.config.reference import settings_table
from engine.config.service import ServiceConfiguration
from engine.config.sites import Sites

ROOT: Final = Path(__file__).parent.parent
# The document, the mark around its table, and the model of the file that the table is about.
TABLES: Final[tuple[tuple[Path, str, type[BaseModel]], ...]] = (
    (ROOT / "channels/README.md", "settings", Channel),
    (ROOT / "engine/interchange/docs/fhir-settings.md", "service settings", ServiceConfiguration),
    (ROOT / "engine/ops/docs/alerts.md", "alert settings", Alerting),
    (ROOT / "engine/ops/docs/sites.md", "site settings", Sites),
)


def with_table(text: str, mark: str, model: type[BaseModel]) -> str:
    """Return a document with the table of today between its marks."""
    before, begin, rest = text.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    return f"{before}{begin}{settings_table(model)}\n{end}{after}"


if __name__ == "__main__":
    for document, mark, model in TABLES:
        document.write_text(with_table(document.read_text("utf-8"), mark, model), "utf-8")
