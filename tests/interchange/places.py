"""Where the services of the tests keep their data: a file in their folder, or with `--postgresql` a database each."""

import contextlib
from hashlib import sha256
from pathlib import Path

from engine.database.postgresql import connect
from engine.interchange.store.place import Place, place_of

DATABASE = "interchange.db"


class Server:
    """The PostgreSQL server of a run, '' for none; databases go with it."""

    address = ""


def url_of(folder: Path) -> str:
    """Return where the service of a folder keeps its data, as `--database` takes it; the same each time."""
    if not Server.address:
        return f"sqlite:///{folder}/{DATABASE}"
    name = f"f{sha256(str(folder).encode()).hexdigest()[:16]}"
    with contextlib.closing(connect(Server.address)) as server:
        if server.execute("SELECT 1 FROM pg_database WHERE datname=?", (name,)).fetchone() is None:
            server.execute(f"CREATE DATABASE {name}")
    return Server.address.replace("/postgres?", f"/{name}?")


def place(folder: Path) -> Place:
    """Return the same as a place."""
    return place_of(url_of(folder))


def address_of(place: Place) -> str:
    """Return a place as `--database` takes it."""
    return f"sqlite:///{place}" if isinstance(place, Path) else place.url
