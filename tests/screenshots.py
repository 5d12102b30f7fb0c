"""The screenshots of the documents: `python -m tests.screenshots` takes them anew.

Those of the README are of a running demo, those of engine/interchange/webhooks.md of what that page runs.

Needs Chromium. Each is 1440 x 900 in light colours, as a PNG of at most 256 colours, which keeps it small.
"""

import itertools
import re
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from tests.chromium import CHROMIUM, OPTIONS
from tests.interchange.webhooks.at_the_chart import PAGE, SIZE, story

FOLDER: Final = Path(__file__).resolve().parents[1] / "engine/ops/docs"
PASSWORD: Final = "a long word for the demo's operator"
WAY_IN: Final = re.compile(r"pages +(http://(\S+?)/set-up\S+)")
CHANNELS: Final = 3  # red, green, blue, as Chromium writes a page without transparency


def rows(png: bytes) -> list[bytes]:
    """Return the rows of an 8-bit RGB image as bytes; ValueError where it is another kind of PNG."""
    place, data, width, depth, kind = 8, b"", 0, 0, 0
    while place < len(png):
        length, name = struct.unpack(">I4s", png[place : place + 8])
        content = png[place + 8 : place + 8 + length]
        if name == b"IHDR":
            width, _, depth, kind = struct.unpack(">IIBB", content[:10])
        data += content if name == b"IDAT" else b""
        place += length + 12
    if (depth, kind) != (8, 2):
        raise ValueError(f"a PNG of depth {depth} and kind {kind}")
    raw, stride, above, found = zlib.decompress(data), width * CHANNELS, bytes(width * CHANNELS), []
    for start in range(0, len(raw), stride + 1):
        above = unfiltered(raw[start], raw[start + 1 : start + 1 + stride], above)
        found.append(above)
    return found


def unfiltered(kind: int, row: bytes, above: bytes) -> bytes:
    """Return a row of which one of PNG's five filters is taken off."""
    out = bytearray(row)
    for at, value in enumerate(row):
        left, up, corner = (out[at - 3], above[at], above[at - 3]) if at >= CHANNELS else (0, above[at], 0)
        best = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
        out[at] = (value + (0, left, up, (left + up) // 2, best)[kind]) & 0xFF
    return bytes(out)


def reduced(png: bytes) -> bytes:
    """Return an image with the 256 colours that it uses most; each other is shown as the nearest of them."""
    image = [[row[at : at + CHANNELS] for at in range(0, len(row), CHANNELS)] for row in rows(png)]
    counts = Counter(itertools.chain.from_iterable(image))
    palette = [colour for colour, _ in counts.most_common(256)]
    index = {colour: min(range(len(palette)), key=lambda at: distance(palette[at], colour)) for colour in counts}
    data = b"".join(b"\0" + bytes(index[colour] for colour in row) for row in image)
    header = struct.pack(">IIBBBBB", len(image[0]), len(image), 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b""))
    return png[:8] + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )


def distance(one: bytes, other: bytes) -> int:
    """Return how far apart two colours are."""
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def sign_in(page: Page, link: str) -> None:
    """Choose a password by the demo's link, and come to the first page."""
    page.goto(link)
    for field in page.locator('input[type="password"]').all():
        field.fill(PASSWORD)
    page.locator("main button, form button").first.click()
    page.wait_for_url(lambda url: "/set-up" not in url)


def take(page: Page, name: str) -> None:
    """Write what the window shows."""
    keep(FOLDER / f"{name}.png", page.screenshot())


def keep(file: Path, png: bytes) -> None:
    """Write a picture that a document shows."""
    content = reduced(png)
    file.write_bytes(content)
    sys.stdout.write(f"{file.name}: {len(content) // 1024} kB\n")


def of_the_story() -> None:
    """Run the page on subscriptions, and keep what its browser sees."""
    with tempfile.TemporaryDirectory() as folder:
        for picture in story(Path(folder)).glob("*.png"):
            keep(PAGE.with_name(picture.name), picture.read_bytes())


def of_the_demo() -> None:
    """Run the demo, take the pictures, and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "engine", "demo", "--data", f"{folder}/demo", "--events", "600", "--rate", "8"]
        demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            lines = (WAY_IN.search(line) for line in demo.stderr or ())
            link, host = next(found for found in lines if found).groups()
            with sync_playwright() as driver:
                page = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS).new_page(viewport=SIZE)
                sign_in(page, link)
                page.wait_for_timeout(20_000)  # a few points more on the charts
                page.goto(f"http://{host}/overview")
                take(page, "overview")
                page.goto(f"http://{host}/lanes")
                page.locator("tbody a.num").first.click()
                page.wait_for_load_state()
                take(page, "message")
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(60)


if __name__ == "__main__":
    of_the_demo()
    of_the_story()
