"""`python -m engine.ops.playground.worker`: answers questions about mappings, a line of JSON each, until they end.

It holds in memory what was asked last and nothing else; it writes no file, opens no socket, and logs nothing.
"""

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from engine.errors import AdtEngineError, ConfigurationError, place_of
from engine.fhir.json import JsonObject
from engine.ops.playground.assisting import completed, explained_word
from engine.ops.playground.bench import Bench, BenchRequest, problems_of
from engine.ops.playground.comparing import checked, compared, tested
from engine.ops.playground.trying import explained_entry, tried
from engine.ops.views.explaining import plain

# More than any mapping needs, and little enough to leave the engine its own.
MOST_MEMORY: Final = 2 * 1024 * 1_048_576

Answering = Callable[[Bench, BenchRequest, JsonObject], JsonObject]
TABLE: Final[dict[str, Answering]] = {
    "check": lambda bench, question, _asked: checked(bench, question),
    "complete": lambda _bench, question, asked: completed(question, asked),
    "word": explained_word,
    "try": lambda bench, question, asked: tried(bench, question, str(asked["message"])),
    "test": tested,
    "explain": explained_entry,
    "prepare": lambda bench, question, _asked: {"file": bench.watched(question).source.name},
    "compare": lambda bench, question, asked: compared(
        bench, question, Path(asked["data"]), asked["name"], asked["limit"]
    ),
}


def main() -> None:
    """Answer every line on standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer every line of questions."""
    bench = Bench()
    for line in questions:
        answers.write(orjson.dumps(answer(bench, line), default=plain) + b"\n")
        answers.flush()


def answer(bench: Bench, line: bytes) -> JsonObject:
    """Return the answer to one line: `made`, or `refused` with why, or `failed` with the place in the code alone."""
    asked: Any = orjson.loads(line)
    question = BenchRequest.of(asked)
    try:
        return {"made": TABLE[asked["do"]](bench, question, asked)}
    except ConfigurationError as error:
        return {"made": {"problems": problems_of(question.site, error.problems)}}
    except AdtEngineError as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 - the place is reported, and nothing of the request
        bench.forget()
        return {"failed": f"{type(error).__name__} at {place_of(error)}"}


if __name__ == "__main__":
    main()
