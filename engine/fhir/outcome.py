"""OperationOutcome: the codes of its issues; its texts are not read, because they may quote a patient."""

import re
from typing import Any, Final

_ISSUE_TYPES: Final = """
    invalid structure required value invariant security login unknown expired forbidden suppressed processing
    not-supported duplicate multiple-matches not-found deleted too-long code-invalid extension too-costly
    business-rule conflict transient lock-error no-store exception timeout incomplete throttled informational
    success limited-filter
"""
# FHIR R4 value set issue-type, with the two codes that R5 adds.
ISSUE_TYPES: Final = frozenset(_ISSUE_TYPES.split())
# Codes of details come from any code system, by custom in lower case or as MSG_NO_MATCH; a name has neither form.
_DETAIL: Final = re.compile(r"[a-z][a-z0-9-]{0,63}|[A-Z]{3}_[A-Z_]{1,60}")
# A path of elements; anything else in an issue may quote a patient.
_ELEMENT: Final = re.compile(r"[A-Z][A-Za-z]{1,40}(\.[A-Za-z]{1,40}(\[\d{1,4}\])?){1,6}")
_FAULTS: Final = ("error", "fatal")


def codes(body: Any) -> tuple[str, ...]:
    """Return the codes of the issues that are errors, each once, `details` codes after their issue's code.

    An issue's code is returned if FHIR defines it, one of its details if it looks like a code. Empty where the body is
    neither an OperationOutcome nor the Parameters of an operation that has one among them.
    """
    distinct: dict[str, None] = {}
    for issue in _faults(body):
        distinct.update(dict.fromkeys(_codes_of(issue)))
    return tuple(distinct)


def required(body: Any) -> tuple[str, ...]:
    """Return the elements (`Patient.birthDate`) that the issues of the code `required` name, each once."""
    found: dict[str, None] = {}
    for issue in _faults(body):
        named = issue.get("expression") or issue.get("location") if issue.get("code") == "required" else None
        found.update(dict.fromkeys(one for one in named or () if isinstance(one, str) and _ELEMENT.fullmatch(one)))
    return tuple(found)


def is_fault(body: Any) -> bool:
    """True if a body is an error, or has one as an operation's result, whatever the HTTP status."""
    return bool(_faults(body))


def _faults(body: Any) -> list[dict[str, Any]]:
    if not isinstance(body, dict):
        return []
    if body.get("resourceType") == "Parameters":
        listed = body.get("parameter")
        results = [one.get("resource") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return [issue for result in results if _is_outcome(result) for issue in _faults(result)]
    issues = body.get("issue") if _is_outcome(body) else None
    if not isinstance(issues, list):
        return []
    return [issue for issue in issues if isinstance(issue, dict) and issue.get("severity") in _FAULTS]


def _is_outcome(body: Any) -> bool:
    return isinstance(body, dict) and body.get("resourceType") == "OperationOutcome"


def _codes_of(issue: dict[str, Any]) -> list[str]:
    details = issue.get("details")
    codings = details.get("coding") if isinstance(details, dict) else None
    kind = issue.get("code")
    found = [kind] if isinstance(kind, str) and kind in ISSUE_TYPES else []
    for coding in codings if isinstance(codings, list) else ():
        code = coding.get("code") if isinstance(coding, dict) else None
        if isinstance(code, str) and _DETAIL.fullmatch(code):
            found.append(code)
    return found
