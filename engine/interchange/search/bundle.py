"""The searchset Bundle: matches as they are kept, total, and links to this page and the next."""

from typing import Any
from urllib.parse import quote, urlencode

import orjson

from engine.interchange.exact import write_json
from engine.interchange.search.page import Page, Pairs

Json = Any


def searchset(
    bundle_id: str,
    address: str,
    criteria: Pairs,
    pages: tuple[Page, Page | None],
    total: int,
    resources: list[tuple[str, bytes]],
) -> bytes:
    """Return a Bundle; `address` is that of the type searched, `resources` are absolute addresses and bodies.

    `pages` are this page and the one that follows it, None after the last.
    """
    links = [
        {"relation": relation, "url": _url(address, criteria, page)}
        for relation, page in zip(("self", "next"), pages, strict=True)
        if page is not None
    ]
    entries: list[Json] = [
        {"fullUrl": url, "resource": orjson.Fragment(body), "search": {"mode": "match"}} for url, body in resources
    ]
    bundle = {
        "resourceType": "Bundle",
        "id": bundle_id,
        "type": "searchset",
        "total": total,
        "link": links,
        "entry": entries,
    }
    return write_json(bundle)


def _url(address: str, criteria: Pairs, page: Page) -> str:
    pairs = [*criteria, *page.form, ("_count", str(page.count))]
    if page.cursored:
        pairs.append(("_paging", "cursor"))
    if page.cursor is not None:
        pairs.append(("_cursor", page.cursor))
    if page.offset:
        pairs.append(("_offset", str(page.offset)))
    return f"{address}?{urlencode(pairs, safe=':,', quote_via=quote)}"
