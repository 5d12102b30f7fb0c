"""Where each value came from, as a page: with the conditions that decided it."""

from html import unescape

import pytest

from tests.flow.rig import channel_file, write
from tests.ops.web.conftest import DELIVERED, HOSTILE, Site

CONDITIONS = "Conditions of filters, resources and moves of a status"


@pytest.mark.matrix
async def test_conditions_are_told_with_what_they_read(site: Site) -> None:
    """Those of the channel's filters: what each read, whether it held, and where it stands."""
    (file,) = (site.rig.folder / "channels").glob("*.yaml")
    before = file.read_text()
    one = await site.person("operator")
    assert CONDITIONS not in (await one.get(f"/messages/{DELIVERED}/explain")).text
    filters = [{"rule": "tests", "when": "PID-5.1 starts-with '<'", "do": "filter"}]
    write(file, channel_file(site.rig.proxy.url) | {"filters": filters})
    await site.act("reload")
    try:
        for entry, name, words in (
            (DELIVERED, "Quintero", "does not let it through"),
            (HOSTILE, "<script>alert(1)</script>", "lets it through"),
        ):
            page = (await one.get(f"/messages/{entry}/explain")).text
            told = unescape(page.split(CONDITIONS)[1].split("</section>")[0])
            assert f'when PID-5.1 starts-with <</span> <span class="small">{words}, as' in told
            assert f'<span class="mono">PID-5.1</span> is <bdi>{name}</bdi>' in told
            assert f"{file.name}:" in told
            assert "<script>alert" not in page
    finally:
        file.write_text(before)
        await site.act("reload")
