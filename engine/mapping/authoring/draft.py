"""First files for a new feed, drafted from its messages: each line with its evidence, decisions marked as such."""

from engine.hl7.taken import ADT
from engine.mapping.authoring.draft_channel import channel_lines
from engine.mapping.authoring.draft_mapping import UnmappedContent, mapping_files
from engine.mapping.authoring.draft_text import MAPPINGS
from engine.mapping.authoring.feed import FeedSurvey
from engine.mapping.compile import MappingSource


def mapping_for(feed: FeedSurvey) -> str:
    """Return the name of the shipped mapping that most messages are for."""
    return MAPPINGS[max(MAPPINGS, key=lambda type_: (feed.types[type_], type_ == ADT))]


def draft(feed: FeedSurvey, source: MappingSource, lost: UnmappedContent, name: str) -> dict[str, str]:
    """Return the files, by their paths: the channel, and a mapping that extends the shipped one.

    All of them pass the checks as they stand.
    """
    files = {f"channels/{name}.yaml": channel_lines(feed, source, name)}
    files |= {f"mappings/{path}": lines for path, lines in mapping_files(feed, source, lost).items()}
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}
