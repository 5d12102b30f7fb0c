"""What the HL7 v2-to-FHIR guide maps, what of it the shipped mapping reads, and the table of it in the documentation.

`python -m tests.mapping.v2_to_fhir` writes the table into `mappings/v2-to-fhir.md`, between its marks.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from engine.config.settings import shipped
from engine.mapping.compile import MappingSource, load
from engine.mapping.files.overlay import FIELD

# HL7 v2-to-FHIR Implementation Guide 1.0.0: the fields with a row in a segment map, of the segments of ADT.
GUIDE = {
    "AL1": (2, 3, 4, 5, 6),
    "DG1": (3, 4, 5, 6, 15, 16, 19, 20, 21, 22),
    "EVN": (2, 4, 5, 6, 7),
    "IAM": (2, 3, 4, 5, 7, 11, 12, 13, 14, 15, 17, 27),
    "IN1": (2, 4, 5, 10, 11, 12, 13, 15, 16, 17, 49),
    "IN3": (21,),
    "MRG": (3,),
    "MSH": (3, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27),
    "NK1": (2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 20, 30, 31, 32, 33, 37, 40, 41),
    "OBX": (3, 4, 5, 6, 7, 8, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 29, 30, 33),
    "PD1": (3, 4, 6, 7, 14),
    "PID": (*range(2, 32), 33, 34, 35, 36, 39, 40),
    "PR1": (3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 19, 23, 25),
    "PRT": (2, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 23, 24),
    "PV1": (*range(2, 12), 13, 14, 15, 16, 17, 19, 20, 36, 37, 38, 40, 42, 43, 44, 45, 50, 52, 53, 54),
    "PV2": (1, 3, 7, 8, 9, 10, 11, 12, 13, 21, 22, 25, 38, 40),
    "ROL": (1, *range(3, 15)),
    "SFT": (1, 2, 3, 4, 5, 6),
}
MAPPED = {f"{segment}-{number}" for segment, numbers in GUIDE.items() for number in numbers}
PAGE = shipped("mappings") / "v2-to-fhir.md"
MARKS = ("<!-- fields -->\n", "<!-- /fields -->")


def texts(value: Any) -> Iterator[str]:
    """Every text in an authored value."""
    if isinstance(value, dict):
        return chain(value, *(texts(part) for part in value.values()))
    return chain(*(texts(part) for part in value)) if isinstance(value, list) else iter([str(value)])


def readers(source: MappingSource) -> dict[str, set[str]]:
    """Every field that a shipped file names, and the names of these files."""
    found = defaultdict(set)
    for one in source.documents.everything():
        for match in chain(*(FIELD.finditer(text) for text in texts(one.value))):
            found[f"{match[1]}-{match[2]}"].add(Path(one.source.file).name)
    return found


def fields_table(source: MappingSource) -> str:
    """The table of the page: by segment, the fields that the guide maps, the files that read them, and the others."""
    read = readers(source)
    lines = ["| Segment | Mapped by the guide | Read here by | Not read |", "|---|---|---|---|"]
    for segment, numbers in GUIDE.items():
        files = set().union(*(read.get(f"{segment}-{number}", ()) for number in numbers))
        left = [number for number in numbers if f"{segment}-{number}" not in read]
        names = ", ".join(f"`{name}`" for name in sorted(files))
        lines.append(f"| {segment} | {spans(numbers)} | {names} | {spans(left)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def spans(numbers: Any) -> str:
    """Numbers as people write them: `2 to 5, 8`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def written(source: MappingSource) -> str:
    """The page with its table as it is to be."""
    before, _, rest = PAGE.read_text("utf-8").partition(MARKS[0])
    return before + MARKS[0] + fields_table(source) + MARKS[1] + rest.partition(MARKS[1])[2]


if __name__ == "__main__":
    PAGE.write_text(written(load([shipped("mappings")], "adt")), "utf-8")
