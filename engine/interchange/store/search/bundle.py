"""The searchset Bundle: matches as they are kept, total, and links to this page and the next."""

import re
from collections.abc import Iterable
from typing import Final
from uuid import uuid4

import orjson

from engine.fhir.json import JsonObject
from engine.interchange.kernel.exact import write_json
from engine.interchange.store.search.page import Pairs, ResultPage

# Characters that a query must escape (RFC 3986, section 3.4), or that separate its parts.
ESCAPED: Final = re.compile(r"[^A-Za-z0-9._~/:,-]+")


def write_searchset(
    bundle_id: str,
    links: list[tuple[str, str]],
    total: int | None,
    resources: list[tuple[str, bytes]],
    included: Iterable[tuple[str, bytes]] = (),
    warning: JsonObject | None = None,
) -> bytes:
    """Return a Bundle of some relations with their addresses, and resources with theirs.

    Without a total where it is None; `included` are resources that are no matches, `warning` is an OperationOutcome.
    """
    entries: list[JsonObject] = [
        {"fullUrl": url, "resource": orjson.Fragment(body), "search": {"mode": "match"}} for url, body in resources
    ]
    entries += [
        {"fullUrl": url, "resource": orjson.Fragment(body), "search": {"mode": "include"}} for url, body in included
    ]
    if warning is not None:
        entries.append({"fullUrl": uuid4().urn, "resource": warning, "search": {"mode": "outcome"}})
    bundle = {
        "resourceType": "Bundle",
        "id": bundle_id,
        "type": "searchset",
        **({} if total is None else {"total": total}),
        "link": [{"relation": relation, "url": url} for relation, url in links],
        "entry": entries,
    }
    return write_json(bundle)


def address_with(address: str, pairs: Pairs) -> str:
    """Return an address with a query that has only the necessary escapes, as addresses have a limit."""
    return f"{address}?{'&'.join(f'{_escaped(name)}={_escaped(value)}' for name, value in pairs)}" if pairs else address


def _escaped(text: str) -> str:
    return ESCAPED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def page_pairs(criteria: Pairs, page: ResultPage) -> Pairs:
    """Return the parameters that ask for a page of a search."""
    pairs = [*criteria, *page.form, ("_count", str(page.count))]
    if page.cursored:
        pairs.append(("_paging", "cursor"))
    if page.cursor is not None:
        pairs.append(("_cursor", page.cursor))
    if page.offset:
        pairs.append(("_offset", str(page.offset)))
    return tuple(pairs)
