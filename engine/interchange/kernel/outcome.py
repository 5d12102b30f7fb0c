"""Refusals of the service: the table of categories with HTTP status and issue code, and OperationOutcomes."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from engine.errors import ServiceError
from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion


class Category(Enum):
    """The category of a refusal: HTTP status and FHIR issue code (issue-type of R4)."""

    STRUCTURE = (400, "structure")
    REQUIRED = (400, "required")
    BAD_VALUE = (400, "invalid")
    UNSUPPORTED = (400, "not-supported")
    TOO_COSTLY = (400, "too-costly")
    LOGIN = (401, "login")
    EXPIRED = (401, "expired")
    FORBIDDEN = (403, "forbidden")
    NOT_FOUND = (404, "not-found")
    UNKNOWN_ROUTE = (404, "not-supported")
    METHOD = (405, "not-supported")
    ACCEPT = (406, "not-supported")
    DUPLICATE = (409, "duplicate")
    CONFLICT = (409, "conflict")
    DELETED = (410, "deleted")
    GONE = (410, "not-found")
    PRECONDITION = (412, "conflict")
    SEVERAL_MATCHES = (412, "multiple-matches")
    SLOW_BODY = (408, "timeout")
    TOO_LONG = (413, "too-long")
    LONG_ADDRESS = (414, "too-long")
    MEDIA_TYPE = (415, "not-supported")
    INVALID = (422, "invalid")
    INCOMPLETE = (422, "required")
    NOT_OFFERED = (422, "not-supported")
    UNRESOLVED = (422, "not-found")
    AMBIGUOUS = (422, "multiple-matches")
    RULE = (422, "business-rule")
    FAILED_JOB = (422, "processing")
    THROTTLED = (429, "throttled")
    LONG_HEADERS = (431, "too-long")
    FAULT = (500, "exception")
    BUSY = (503, "transient")
    TIMEOUT = (504, "timeout")

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[0]

    def code(self, version: FhirVersion) -> str:
        """The issue code; STU3's list lacks `deleted` and `multiple-matches`."""
        return _code(self.value[1], version)


MOST_ISSUES: Final = 100
STU3_CODES: Final = {"deleted": "not-found", "multiple-matches": "duplicate"}


class Issue(NamedTuple):
    """One issue of an outcome: a text for people, a location, and a code for machines; no patient data.

    `location` is a path in the body (`Patient.birthDate`), or `http.<parameter>` outside of it. `code` is its own issue
    code (of R4) if the outcome has issues of several kinds, '' for that of the refusal.
    """

    diagnostics: str
    location: str = ""
    detail: str = ""
    code: str = ""


@dataclass(eq=False)
class RefusedError(ServiceError):
    """A refused request: one category, one or more issues, and the headers of the answer."""

    category: Category
    issues: tuple[Issue, ...]
    headers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        super().__init__(self.category.name.lower().replace("_", " "))


def refuse(category: Category, diagnostics: str, *, location: str = "", detail: str = "") -> RefusedError:
    """Return a refusal with one issue."""
    return RefusedError(category, (Issue(diagnostics, location, detail),))


def repeatable(name: str) -> str:
    """Return a parameter's name with the characters that an answer may echo."""
    return "".join(character for character in name[:40] if character.isalnum() or character in "-_.:$")


def unsupported(name: str, hint: str = "") -> RefusedError:
    """Return the refusal (400) of an unsupported parameter; `hint` says what is supported."""
    known = repeatable(name)
    return refuse(Category.UNSUPPORTED, f"The parameter {known} is not supported here{hint}.", location=f"http.{known}")


def outcome(refusal: RefusedError, version: FhirVersion, system: str) -> JsonObject:
    """Return the OperationOutcome of a refusal; `system` is the service's identifier system.

    It lists the first issues only, so that the answer is not larger than the request.
    """
    code = refusal.category.code(version)
    return {
        "resourceType": "OperationOutcome",
        "issue": [
            _issue(issue, _code(issue.code, version) if issue.code else code, system)
            for issue in refusal.issues[:MOST_ISSUES]
        ],
    }


def success(diagnostics: str, warnings: Iterable[Issue] = ()) -> JsonObject:
    """Return an OperationOutcome of success, with warnings."""
    issue = {"severity": "information", "code": "informational", "diagnostics": diagnostics}
    return {
        "resourceType": "OperationOutcome",
        "issue": [issue, *(_issue(warning, "invalid", "", severity="warning") for warning in warnings)],
    }


def left_out(issues: Iterable[Issue], version: FhirVersion) -> JsonObject:
    """Return an OperationOutcome of ignored parts of a request (`Prefer: handling=lenient`)."""
    code = Category.UNSUPPORTED.code(version)
    return {"resourceType": "OperationOutcome", "issue": [_issue(one, code, "", severity="warning") for one in issues]}


def _code(code: str, version: FhirVersion) -> str:
    return STU3_CODES.get(code, code) if version is FhirVersion.STU3 else code


def _issue(issue: Issue, code: str, system: str, *, severity: str = "error") -> JsonObject:
    issue_body: JsonObject = {"severity": severity, "code": code}
    if issue.detail:
        issue_body["details"] = {"coding": [{"system": f"{system}/outcome", "code": issue.detail}]}
    issue_body["diagnostics"] = issue.diagnostics
    issue_body["location"] = [issue.location or "http"]
    if issue.location[:1].isupper():
        issue_body["expression"] = [issue.location]
    return issue_body
