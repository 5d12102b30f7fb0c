"""The site's own mapping that the guide shows under "Types that do not ship": its files, as an author writes them."""

import re
from pathlib import Path

from engine.config.settings import shipped

FILES = {
    "any type": "adt.yaml",
    "immunization": "resources/immunization.yaml",
    "appointment": "resources/appointment.yaml",
}


def block(name: str) -> str:
    """Return the text of one block of the guide."""
    guide = (shipped("mappings") / "resources.md").read_text("utf-8")
    found = re.search(rf"<!-- {name} -->\n```yaml\n(.*?)```\n<!-- /{name} -->", guide, re.DOTALL)
    assert found, name
    return found[1]


def site(folder: Path) -> Path:
    """Write the files of the guide into a folder, and return it."""
    (folder / "resources").mkdir(exist_ok=True)
    for name, file in FILES.items():
        (folder / file).write_text(block(name), "utf-8")
    return folder
