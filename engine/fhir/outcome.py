"""OperationOutcome: the codes of its issues, and nothing of its texts, which may quote a patient."""

import re
from typing import Any, Final

_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_FAULTS: Final = ("error", "fatal")


def codes(body: Any) -> tuple[str, ...]:
    """Return the codes of the issues that are errors, each once, `details` codes after their issue's code.

    Only what has the form of a code is returned. Empty where the body is no OperationOutcome.
    """
    found: dict[str, None] = {}
    for issue in _faults(body):
        found.update(dict.fromkeys(_codes_of(issue)))
    return tuple(found)


def is_fault(body: Any) -> bool:
    """Say whether a body is an OperationOutcome with an error, whatever the HTTP status says."""
    return bool(_faults(body))


def _faults(body: Any) -> list[dict[str, Any]]:
    if not isinstance(body, dict) or body.get("resourceType") != "OperationOutcome":
        return []
    issues = body.get("issue")
    if not isinstance(issues, list):
        return []
    return [issue for issue in issues if isinstance(issue, dict) and issue.get("severity") in _FAULTS]


def _codes_of(issue: dict[str, Any]) -> list[str]:
    details = issue.get("details")
    codings = details.get("coding") if isinstance(details, dict) else None
    candidates = [issue.get("code")]
    if isinstance(codings, list):
        candidates += [coding.get("code") for coding in codings if isinstance(coding, dict)]
    return [code for code in candidates if isinstance(code, str) and _CODE.fullmatch(code)]
