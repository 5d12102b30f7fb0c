"""A flame graph as an SVG without scripts: which calls were under way in which share of the samples.

Each row is called by the one above it. Libraries are grey; the engine's folders have a colour each.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

WIDTH: Final = 1200
ROW: Final = 17
LETTER: Final = 6.2
# Shares of a pixel tell nothing, and a sample taken amid a change of the stack may be of calls that never were.
LEAST_SHARE: Final = 0.003
# Where the engine's own work begins: in the event loop, which gets a box of its own, or in a thread.
BEGINNINGS: Final = {"Runner.run": "event loop", "Thread.run": ""}
LIBRARY: Final = "#d8d8d8"
COLOURS: Final = {
    "receive": "#9ecae1",
    "hl7": "#c6dbef",
    "journal": "#a1d99b",
    "mapping": "#fdd0a2",
    "fhir": "#fdae6b",
    "deliver": "#fc9272",
    "acknowledge": "#bcbddc",
    "pipeline": "#dadaeb",
}


@dataclass(slots=True)
class Frame:
    """A function and the file it stands in, the samples in which it was under way, and what it called then."""

    name: str
    file: str = ""
    samples: int = 0
    calls: dict[str, "Frame"] = field(default_factory=dict)

    @property
    def colour(self) -> str:
        """The colour of its folder of the engine."""
        parts = self.file.split("/")
        return COLOURS.get(parts[1], LIBRARY) if parts[0] == "engine" and len(parts) > 1 else LIBRARY


def tree(lines: Iterable[str]) -> Frame:
    """Return the calls of py-spy's `raw` format: `outer (file:line);inner (file:line) samples`.

    What leads to the event loop or to a thread's work is left out, and a stack that has neither is.
    """
    root = Frame("all")
    for line in lines:
        stack, _, samples = line.rpartition(" ")
        frames = [tuple(frame.rpartition(" (")[::2]) for frame in stack.split(";")]
        names = [name for name, _ in frames]
        at = next((at for at, name in enumerate(names) if name in BEGINNINGS), None)
        if at is None:
            continue
        if title := BEGINNINGS[names[at]]:
            frames[at] = (title, "")
        else:
            at += 1
        _add(root, frames[at:], int(samples))
    return root


def _add(frame: Frame, stack: Sequence[tuple[str, ...]], samples: int) -> None:
    frame.samples += samples
    for name, place in stack:
        new = Frame(name.replace(".<locals>", ""), place.rstrip(")").rpartition(":")[0])
        frame = frame.calls.setdefault(f"{name} {place}", new)
        frame.samples += samples


def svg(root: Frame, title: str) -> str:
    """Return the graph of all calls with LEAST_SHARE of the samples, the greater to the left."""
    boxes = list(_boxes(root, 0.0, 0))
    height = (max(row for _, _, row in boxes) + 1) * ROW + 2 * ROW
    legend = "".join(
        f'<rect x="{at * 90}" y="{height - ROW}" width="86" height="{ROW - 1}" fill="{colour}"/>'
        f'<text x="{at * 90 + 4}" y="{height - 5}">{room}</text>'
        for at, (room, colour) in enumerate((COLOURS | {"libraries": LIBRARY}).items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" '
        f'font-size="10.5"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="4" y="{ROW - 5}" font-weight="bold">{escape(title)}</text>\n'
        + "\n".join(_box(frame, left, row, root.samples) for frame, left, row in boxes)
        + f"\n{legend}</svg>\n"
    )


def _boxes(root: Frame, left: float, row: int) -> Iterator[tuple[Frame, float, int]]:
    """Yield each call below a frame, with where it begins, from 0 to 1, and its row."""
    waiting = [(root, left, row)]
    while waiting:
        frame, left, row = waiting.pop()
        for call in sorted(frame.calls.values(), key=lambda call: -call.samples):
            share = call.samples / root.samples
            if share >= LEAST_SHARE:
                yield call, left, row
                waiting.append((call, left, row + 1))
            left += share


def _box(frame: Frame, left: float, row: int, samples: int) -> str:
    x, y, share = left * WIDTH, (row + 1) * ROW, frame.samples / samples
    wide, told = share * WIDTH, escape(f"{frame.name} {frame.file}: {share:.1%}")
    room = int((wide - 4) / LETTER)
    text = frame.name if len(frame.name) <= room else f"{frame.name[: room - 1]}…" if room > 3 else ""
    label = f'<text x="{x + 2:.1f}" y="{y + ROW - 5}">{escape(text)}</text>' if text else ""
    return (
        f'<g><title>{told}</title><rect x="{x:.1f}" y="{y}" width="{max(wide - 0.5, 0.5):.1f}" height="{ROW - 1}" '
        f'fill="{frame.colour}"/>{label}</g>'
    )
