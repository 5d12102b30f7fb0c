import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "engine"

STATIONS = {"receive", "journal", "mapping", "deliver", "acknowledge"}
VOCABULARY = {"hl7", "fhir", "config", "telemetry"}
FLOORS = {
    "clock": 1,
    "errors": 1,
    "fault": 1,
    "interpreter": 1,
    **dict.fromkeys(VOCABULARY, 2),
    "http": 2,
    "database": 2,
    "mllp": 2,
    "security": 2,
    "terminal": 3,
    **dict.fromkeys(STATIONS, 4),
    "interchange": 4,
    "simulation": 4,
    "pipeline": 5,
    "ops": 6,
    "__main__": 7,
}
# The service's own floors: each folder imports from lower ones only.
SERVICE_FLOORS = {
    "kernel": 1,
    "store": 2,
    "tokens": 3,
    "core": 4,
    "rest": 5,
    "jobs": 6,
    "events": 7,
    "clinical": 8,
    "network": 9,
    "orders": 10,
    "web": 11,
    "app": 12,
}
# Who may use which library; a name ending in / is a folder. Everybody else goes through them.
HOMES = {
    "twisted": ("receive/listener", "receive/reactor.py", "pipeline/", "__main__.py"),
    "hl7": ("mllp/",),
    "httpx": ("deliver/wire/client.py", "deliver/wire/transport.py", "interchange/kernel/outbound.py"),
    "aiohttp": ("deliver/wire/client.py", "deliver/wire/transport.py"),
    "uvicorn": ("http/", "interchange/app/process.py"),
    "httptools": ("deliver/wire/client.py", "deliver/wire/transport.py", "http/connection.py"),
    "psycopg": ("database/postgresql.py",),
    "sqlite3": ("database/sqlite.py", "journal/", "interchange/store/"),
    "pysqlite3": ("database/sqlite.py", "journal/", "interchange/store/"),
    "sqlite_utils": ("journal/", "interchange/store/"),
    "lxml": ("interchange/clinical/ccda/",),
    "yaml": ("config/source.py",),
    "markdown_it": ("ops/web/pages/help.py",),
    "fhir": ("fhir/secondary_validator.py",),
    "re2": ("mapping/language/comparison.py",),
    "pygls": ("ops/editor/",),
    "lsprotocol": ("ops/editor/",),
}
# Twisted's reactor must not be imported before it is installed on the running loop; what explains a mapping is a
# compiler of its own, which commands and the engine need not load at every start; and an engine takes messages before
# it reads what its pages and operations are made of. PostgreSQL's driver is read by whom it serves only,
# and RE2 where a mapping has a pattern.
LATE_IMPORTS = (
    *("receive/reactor.py", "ops/operations/explaining.py", "ops/cli/run.py"),
    *("interchange/store/place.py", "mapping/language/comparison.py"),
)
FORBIDDEN_NAMES = {"utils", "util", "misc"}
FORBIDDEN_ENDINGS = ("Utils", "Util")
FORBIDDEN_CALLS = {"eval", "exec", "compile", "print"}
# Templates become functions there; `tests/mapping/language/test_node.py` holds that no authored text is ever run.
EXECUTED = {"mapping/language/source.py: compile", "mapping/language/source.py: exec"}
# Class names that are defined more than once, and how often.
RECURRING_NAMES = Path(__file__).with_name("recurring_names.txt")
LONGEST_MODULE = 600
LONGEST_FUNCTION = 120
LONGEST_CLASS = 300


@dataclass(frozen=True)
class Module:
    """One file of the engine and what it imports."""

    path: str
    name: str
    tree: ast.Module
    lines: int

    @property
    def room(self) -> str:
        """The folder or single file below `engine/` that it belongs to."""
        return self.path.split("/")[0].removesuffix(".py")

    @cached_property
    def imports(self) -> frozenset[str]:
        """Absolute names of all that it imports, at any depth."""
        return frozenset(_imported(self.tree))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def house() -> tuple[Module, ...]:
    """Read every module of the engine once."""
    found = []
    for file in sorted(ENGINE.rglob("*.py")):
        path = file.relative_to(ENGINE).as_posix()
        name = ".".join(("engine", *path.removesuffix(".py").removesuffix("/__init__").split("/")))
        text = file.read_text(encoding="utf-8")
        found.append(Module(path, name, ast.parse(text), text.count("\n")))
    return tuple(found)


def ours(module: Module) -> set[str]:
    """Return the modules of the engine that a module imports."""
    known = {other.name for other in house()}
    targets = {name if name in known else name.rpartition(".")[0] for name in module.imports}
    return {name for name in targets if name in known and name not in {"engine", module.name}}


def rooms_of(module: Module) -> set[str]:
    """Return the other rooms that a module reaches into."""
    return {name.split(".")[1] for name in ours(module)} - {module.room}


def test_every_room_has_a_floor() -> None:
    """A new room is placed on a floor before anything may live in it."""
    assert {module.room for module in house()} - {"__init__"} <= set(FLOORS)


def test_arrows_only_go_down() -> None:
    """A room imports only from lower floors; rooms of one floor do not know each other."""
    upward = [
        f"{module.path} imports {room}"
        for module in house()
        for room in rooms_of(module)
        if FLOORS[room] >= FLOORS[module.room]
    ]
    assert upward == []


def floors_reached(module: Module) -> set[str]:
    """Return the folders of the service that a module imports from."""
    return {name.split(".")[2] for name in ours(module) if name.startswith("engine.interchange.")}


def test_every_folder_of_the_service_has_a_floor() -> None:
    """A module of the service lies in a folder that has a floor, and the plan of the house names each folder."""
    folders = {module.path.split("/")[1] for module in house() if module.room == "interchange"}
    assert folders == {"__init__.py", *SERVICE_FLOORS}
    plan = (ENGINE / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `engine/interchange/(\w+)/` \|", plan, re.MULTILINE)
    assert {folder: int(floor) for floor, folder in rows} == SERVICE_FLOORS


def test_the_service_only_imports_down() -> None:
    """A folder of the service imports only from lower floors of it."""
    upward = [
        f"{module.path} imports {folder}"
        for module in house()
        if module.room == "interchange"
        for folder in floors_reached(module) - {module.path.split("/")[1]}
        if SERVICE_FLOORS[folder] >= SERVICE_FLOORS[module.path.split("/")[1]]
    ]
    assert upward == []


def test_the_ground_floor_imports_nothing_of_ours() -> None:
    """errors.py, fault.py, clock.py and interpreter.py stand on nothing but the standard library."""
    assert [module.path for module in house() if FLOORS.get(module.room) == 1 and ours(module)] == []


def test_only_mapping_knows_hl7_and_fhir() -> None:
    """Among the stations only mapping imports both; deliver knows no HL7, receive and acknowledge no FHIR."""
    known: dict[str, set[str]] = {}
    for module in house():
        known.setdefault(module.room, set()).update(rooms_of(module) & {"hl7", "fhir"})
    assert {room for room in STATIONS if known.get(room) == {"hl7", "fhir"}} <= {"mapping"}
    assert "hl7" not in known.get("deliver", set())
    assert "fhir" not in known.get("receive", set()) | known.get("acknowledge", set())


def test_stations_do_not_log_or_count() -> None:
    """Only the spine logs and counts: no station imports telemetry."""
    assert [module.path for module in house() if module.room in STATIONS and "telemetry" in rooms_of(module)] == []


def test_the_neighbour_is_reached_over_http_only() -> None:
    """interchange imports only from the floors below the stations, HL7 for laboratories.

    Nothing imports it: `__main__` names the module of its commands, which is read when one is called.
    """
    reached = {room for module in house() if module.room == "interchange" for room in rooms_of(module)}
    below = {*VOCABULARY, "clock", "errors", "fault", "http", "interpreter", "mllp", "database", "security"}
    assert reached <= {*below, "terminal"}
    assert {
        module.path.split("/")[2]
        for module in house()
        if module.room == "interchange" and any(name.startswith("engine.hl7") for name in ours(module))
    } == {"laboratory"}
    assert [module.path for module in house() if "interchange" in rooms_of(module)] == []
    named = {
        (module.path, node.value)
        for module in house()
        if module.room != "interchange"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "engine.interchange" in node.value
    }
    assert named == {("__main__.py", "engine.interchange.app.commands.interchange:app")}


def test_no_entry_of_the_service_forgets_the_guard() -> None:
    """An interaction runs by its admission, and only `admit` makes one: no entry can leave out a check."""
    calls = {
        (module.path, node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)
        for module in house()
        if module.room == "interchange"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "AdmittedInteraction")
            or (isinstance(node.func, ast.Attribute) and ast.unparse(node.func).endswith("interaction.run"))
        )
        and isinstance(node.func, ast.Name | ast.Attribute)
    }
    assert calls == {("interchange/rest/access.py", "AdmittedInteraction"), ("interchange/rest/access.py", "run")}


def test_stations_do_not_know_the_terminal() -> None:
    """Only commands print: those of the engine, of the service, and the one that holds them all."""
    callers = {module.path.split("/")[0] for module in house() if "terminal" in rooms_of(module)}
    assert callers == {"ops", "interchange", "__main__.py"}
    strangers = [
        module.path
        for module in house()
        if module.room == "interchange"
        and "terminal" in rooms_of(module)
        and not module.path.startswith("interchange/app/commands/")
    ]
    assert strangers == []


def test_the_simulated_hospital_stands_alone() -> None:
    """simulation knows HL7 and nothing else of ours; only the doors ask it for messages."""
    reached = {room for module in house() if module.room == "simulation" for room in rooms_of(module)}
    assert reached <= {"hl7", "errors"}
    assert {module.room for module in house() if "simulation" in rooms_of(module)} <= {"ops"}


def test_no_circles() -> None:
    """No module reaches itself through its imports."""
    graph = {module.name: ours(module) for module in house()}
    done: set[str] = set()

    def walk(name: str, above: tuple[str, ...]) -> Iterator[str]:
        if name in above:
            yield " -> ".join((*above[above.index(name) :], name))
        elif name not in done:
            for below in sorted(graph[name]):
                yield from walk(below, (*above, name))
            done.add(name)

    assert [circle for name in sorted(graph) for circle in walk(name, ())] == []


def test_no_type_checking_blocks() -> None:
    """A type that is needed below lives below: nothing is imported for the type checker alone."""
    marked = [
        module.path
        for module in house()
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
        or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
    ]
    assert marked == []


def test_imports_stand_at_the_top() -> None:
    """No function imports, but for the one place that must not import Twisted's reactor early."""
    inside = {
        module.path
        for module in house()
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert inside <= set(LATE_IMPORTS)


@pytest.mark.parametrize("library", sorted(HOMES))
def test_each_library_has_its_home(library: str) -> None:
    """A library is imported in its few places only, so that it can be replaced there."""
    homes = HOMES[library]
    strangers = [
        module.path
        for module in house()
        if any(name == library or name.startswith(f"{library}.") for name in module.imports)
        and not module.path.startswith(homes)
    ]
    assert strangers == []


def test_the_environment_is_read_in_one_place() -> None:
    """Only config/settings reads environment variables."""
    readers = {
        module.path
        for module in house()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in {"environ", "getenv", "environb", "putenv"}
    } | {module.path for module in house() if module.imports & {"os.environ", "os.getenv"}}
    assert readers <= {"config/settings.py"}


CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("time", "time"), ("uuid", "uuid4")}


def test_stations_take_time_and_ids_as_arguments() -> None:
    """No station reads the wall clock or makes a random id: the same input gives the same output."""
    readers = {
        f"{module.path}:{node.lineno}"
        for module in house()
        if module.room in STATIONS | VOCABULARY - {"telemetry"}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in CLOCKS
    }
    assert readers == set()
    assert [
        module.path for module in house() if module.room in STATIONS | VOCABULARY and "clock" in rooms_of(module)
    ] == []


def test_nothing_is_printed_or_executed() -> None:
    """No eval, pickle or yaml.load: authored files are data. The one home of exec runs none of their text."""
    called = {
        f"{module.path}: {node.func.id}"
        for module in house()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS
    }
    assert called == EXECUTED
    unsafe = {"pickle", "marshal", "shelve", "yaml.load", "yaml.unsafe_load"}
    assert [module.path for module in house() if module.imports & unsafe] == []


def test_json_has_one_home() -> None:
    """`Json` is the recursive type of engine/fhir/json.py: no other module has a type of that name, and no `Any`."""
    homes = {
        module.path
        for module in house()
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id in {"Json", "JsonObject"}
    }
    assert homes == {"fhir/json.py"}
    names = {
        node.targets[0].id: {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
        for module in house()
        if module.path == "fhir/json.py"
        for node in module.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert "Any" not in names["Json"]
    renamed = [
        f"{module.path}: {alias.name} as {alias.asname}"
        for module in house()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname in {"Json", "JsonObject"}
    ]
    assert renamed == []


def test_names_say_what_a_thing_is() -> None:
    """Neither a file nor a class is named utils; errors end in Error."""
    rooms = [module.path for module in house() if set(module.path.removesuffix(".py").split("/")) & FORBIDDEN_NAMES]
    classes = [
        (module.path, node) for module in house() for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    ]
    assert rooms == []
    assert [f"{path} {node.name}" for path, node in classes if node.name.endswith(FORBIDDEN_ENDINGS)] == []
    raised = {
        name
        for _, node in classes
        for name in [node.name]
        if _is_error(node) and not name.startswith("_") and not name.endswith("Error")
    }
    assert raised == set()


def _is_error(node: ast.ClassDef) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return any(base.endswith("Error") or base in {"Exception", "BaseException"} for base in bases)


def test_a_class_name_is_defined_once() -> None:
    """A class has a name of its own, but for those in recurring_names.txt, a list that only gets shorter."""
    names = [node.name for module in house() for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    counts = {name: count for name, count in Counter(names).items() if count > 1}
    lines = RECURRING_NAMES.read_text("utf-8").splitlines()
    listed = {name: int(count) for name, count in (line.split() for line in lines)}
    more = {name: count for name, count in counts.items() if count > listed.get(name, 1)}
    assert more == {}, "these classes have the name of another one: give them names of their own"
    fewer = {name: counts.get(name, 1) for name, count in listed.items() if counts.get(name, 1) < count}
    assert fewer == {}, "these names recur less often now: lower their count in the list, and take out each 1"
    assert lines == sorted(lines)


def test_every_module_says_what_stands_here() -> None:
    """A module begins with one sentence; an empty __init__ of a folder needs none."""
    silent = [module.path for module in house() if module.lines and not ast.get_docstring(module.tree)]
    assert silent == []


def test_rooms_stay_small() -> None:
    """No module is over 600 lines, no class over 300 and no function over 120; the message lists those that are."""
    long_modules = [f"{module.path}: {module.lines} lines" for module in house() if module.lines > LONGEST_MODULE]
    long_definitions = [
        f"{module.path}:{node.lineno} {node.name}: {size} lines"
        for module in house()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1)
        > (LONGEST_CLASS if isinstance(node, ast.ClassDef) else LONGEST_FUNCTION)
    ]
    assert long_modules + long_definitions == []
