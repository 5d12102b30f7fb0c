"""What test cases make, against the profiles that it claims, and a list of what is not checked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from engine.fhir.profiles import ProfileSet, claimed, violations
from engine.mapping.authoring.case import Case, CaseResult


class ProfileViolation(NamedTuple):
    """What of a profile a resource of a case does not hold to."""

    case: Case
    profile: str
    text: str


class ProfileReport(NamedTuple):
    """`claims`: resources that claim a profile whose constraints are known; `unchecked`: what nothing is said of."""

    guide: str
    claims: int
    violations: tuple[ProfileViolation, ...]
    unchecked: tuple[str, ...]


def conformance(results: Iterable[CaseResult], known: ProfileSet) -> ProfileReport:
    """Check every resource that cases would create against each profile that it claims."""
    claims, found = 0, []
    silent: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    for result in results:
        for resource in created_resources(result.found):
            urls = claimed(resource)
            silent[str(resource["resourceType"])] += not urls
            for url in urls:
                if url not in known.profiles:
                    foreign[url] += 1
                    continue
                claims += 1
                found += [ProfileViolation(result.case, url, text) for text in violations(resource, url, known)]
    unchecked = [f"{url}: {count} resources (no constraints in the pack)" for url, count in sorted(foreign.items())]
    unchecked += [f"{type_}: {count} resources claim no profile" for type_, count in sorted(silent.items()) if count]
    return ProfileReport(known.guide, claims, tuple(found), (*known.unchecked, *unchecked))


def created_resources(made: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of an outcome that are written whole where they are unknown."""
    for one in made.get("interactions") or ():
        body = one.get("patient") or one.get("resource")
        if body and one.get("if_absent", "create").startswith("create"):
            yield body
