"""What the playground answers with: made of what the asker sent and of mapping files, so it is marked as facts.

Nothing of the journal is in it but in `Compared`, which only an operation that needs to see patients answers with, and
how many messages had an element (`Lost`).
"""

from engine.ops.views.answer import Answer, AnyJson, Count, Time


class MappingFile(Answer, facts=True):
    """A mapping file by its path below its folder; `shipped/...` is one that ships with the engine.

    `digest`: the SHA-256 of its bytes.
    """

    path: str
    digest: str


class MappingText(MappingFile, facts=True):
    """A mapping file and its text."""

    text: str


class ProblemView(Answer, facts=True):
    """A mistake in a file: its place, what was found, what would do."""

    file: str
    line: Count
    column: Count
    path: str
    found: str
    expected: str


class TriedPart(Answer, facts=True):
    """A component or subcomponent of the message, unescaped."""

    path: str
    name: str
    value: str


class TriedField(TriedPart, facts=True):
    """A field of it; `parts` is empty where it is one plain value."""

    parts: tuple[TriedPart, ...]


class TriedSegment(Answer, facts=True):
    """A segment of it with what is valued; `number` counts the segments of a name from 1."""

    name: str
    number: Count
    fields: tuple[TriedField, ...]


class Origin(Answer, facts=True):
    """Where an element came from: its rule with file and line, the field that was read, what was done with it.

    `segment` counts the segments of the field's name from 1. `made` is what came out.
    """

    element: str
    file: str
    line: Count
    rule: str
    source: str
    segment: Count
    raw: AnyJson
    functions: tuple[str, ...]
    rows: tuple[str, ...]
    made: AnyJson


class Planned(Answer, facts=True):
    """One interaction of the plan; `origins` leads from paths in its resource to places in the list of elements."""

    interaction: str
    resource: AnyJson
    origins: dict[str, Count]


class UnreadField(Answer, facts=True):
    """A field that no rule reads."""

    path: str
    name: str


class HeldFilter(Answer, facts=True):
    """The filter of the channel that holds for a message, and what it does: `filter`, `refuse` or `send`.

    `send_to`: the destinations that alone get it, where it is sent; `where_known`: others do where they have one of its
    patients, as it says who somebody is.
    """

    rule: str
    does: str
    send_to: tuple[str, ...]
    where_known: bool


class Tried(Answer, facts=True):
    """What became of a message; without a plan where `problems` says what is wrong with the mapping, or `error`.

    `elements` are at most 2,000; `more` counts the others.
    """

    event: str = ""
    action: str = ""
    rule: str = ""
    file: str = ""
    line: Count = 0
    filter: HeldFilter | None = None
    error: str = ""
    findings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    segments: tuple[TriedSegment, ...] = ()
    plan: tuple[Planned, ...] = ()
    elements: tuple[Origin, ...] = ()
    more: Count = 0
    unread: tuple[UnreadField, ...] = ()
    problems: tuple[ProblemView, ...] = ()


class Checked(Answer, facts=True):
    """What is wrong with the files; nothing where they can be used."""

    problems: tuple[ProblemView, ...] = ()


class Completion(Answer, facts=True):
    """What may be written: its label, the text that replaces the word, its kind, a line about it, its whole text."""

    label: str
    insert: str
    kind: str
    detail: str
    text: str


class CompletionList(Answer, facts=True):
    """What may be written at a place; `start` and `end` are the columns of the word that it replaces."""

    start: Count
    end: Count
    items: tuple[Completion, ...] = ()


class WordExplanation(Answer, facts=True):
    """What is said of a word, as Markdown, with the value of its line; `file` and `line` are where it leads, if any.

    Values are those of the message that was asked with.
    """

    text: str = ""
    file: str = ""
    line: Count = 0


class FailedCase(Answer, facts=True):
    """A case that comes out otherwise than expected."""

    file: str
    line: Count
    case: str
    differences: tuple[str, ...]


class Lost(Answer, facts=True):
    """An element that is made no longer: how many messages of the cases, and of the channel's newest ones, had it."""

    element: str
    messages: Count
    recent: Count


class Tested(Answer, facts=True):
    """How many cases there are, which differ; `problems`: why they could not be run.

    `shipped`: how many cases ship besides the site's own, and which of them the site's files `changed`. `lost`: what is
    in force makes these elements of the messages of all cases or of the `recent` newest ones, the edited files do not.
    """

    cases: Count = 0
    failed: tuple[FailedCase, ...] = ()
    shipped: Count = 0
    changed: tuple[FailedCase, ...] = ()
    lost: tuple[Lost, ...] = ()
    recent: Count = 0
    problems: tuple[ProblemView, ...] = ()


class PublicationView(Answer, facts=True):
    """Mapping files that were put in force, by whom and why; `undoes` names the publication that it takes back, or 0.

    `can_be_taken_back`: nothing was put in force since.
    """

    number: Count
    at: Time
    by: str
    reason: str
    state: str
    files: tuple[str, ...]
    undoes: Count
    can_be_taken_back: bool


class SharedMessageView(Answer, facts=True):
    """A de-identified copy of a message: its number, when and by whom it was shared, as on which channel.

    `text` has a line for each segment.
    """

    number: Count
    at: Time
    by: str
    channel: str
    event: str
    text: str


class Change(Answer):
    """One kind of change at one path: how many messages have it, and the values of the first of them."""

    kind: str
    path: str
    count: Count
    entry: Count
    before: AnyJson
    after: AnyJson


class Compared(Answer):
    """What the edits change for the newest messages of a channel, as far as they can be read."""

    messages: Count = 0
    differing: Count = 0
    unreadable: Count = 0
    changes: tuple[Change, ...] = ()
    problems: tuple[ProblemView, ...] = ()
