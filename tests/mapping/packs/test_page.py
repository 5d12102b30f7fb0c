"""The page of the packs is the one of its table and of their files."""

from tests.mapping.packs.__main__ import PAGE, documents_of, line_of, page, table


def test_the_page_is_generated() -> None:
    """Written by `python -m tests.mapping.packs`; each row's place is a line of a file."""
    assert PAGE.read_text("utf-8") == page()


def test_every_profile_that_a_pack_claims_has_a_row() -> None:
    """A pack that claims the profile of another type says what it follows."""
    for name, pack in table().items():
        documents, named = documents_of(name), {row["at"].partition(": ")[0] for row in pack["rows"]}
        claiming = {key for key, one in documents.resources.items() if "/StructureDefinition/" in _profiles(one.value)}
        assert claiming
        assert claiming - named == set(), name
        assert all(line_of(documents, row["at"])[1] for row in pack["rows"])


def _profiles(value: object) -> str:
    """Return all that is written at a key of a profile, or at one of `meta`."""
    if not isinstance(value, dict):
        return ""
    own = "".join(str(part) for key, part in value.items() if key in {"meta", "meta.profile"})
    return own + "".join(_profiles(part) for part in value.values())
