"""The line of the catalogue for groups: a roster names patients of many charts, and is in none of them."""

from typing import Final

from engine.interchange.rest.resource.definition import Definition
from engine.interchange.rest.resource.line import CODE, IDENTIFIER, TYPE, code, named, text, to
from engine.interchange.store.search.criterion import Rank
from engine.interchange.tokens.oauth.role import RoleRule

GROUP: Final = "Group"
ROSTER: Final = Definition(
    GROUP,
    named(
        GROUP,
        (
            IDENTIFIER,
            to("member", "Patient", "Practitioner", "PractitionerRole", element="member.entity", rank=Rank.SOME),
            text("name", "name"),
            CODE,
            TYPE,
            code("actual", "actual", Rank.MOST),
        ),
    ),
    reading=RoleRule.CHART,
    writing=RoleRule.CLINICAL,
    creating=RoleRule.CLINICAL,
)
