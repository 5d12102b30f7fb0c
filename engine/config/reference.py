"""Every setting of a channel file and of the service's file as rows, from which the documents' tables are made."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.config.model import inner_model
from engine.config.secret import Secret

_UNITS: Final = ("bytes", "seconds", "minutes", "hours", "days")


class SettingRow(NamedTuple):
    """One setting: its key with dots, its default as written in YAML, its unit, and its meaning."""

    name: str
    default: str
    unit: str
    meaning: str


def setting_rows(model: type[BaseModel] = Channel, prefix: str = "") -> tuple[SettingRow, ...]:
    """Return the settings of a model in the order of its fields; a block comes before what is in it."""
    return tuple(_rows(model, prefix))


def settings_table(model: type[BaseModel] = Channel) -> str:
    """Return the settings of a model as a Markdown table."""
    lines = ["| Key | Default | Unit | Meaning |", "|---|---|---|---|"]
    for row in setting_rows(model):
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.name}` | {default} | {row.unit} | {row.meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def _rows(model: type[BaseModel], prefix: str) -> Iterator[SettingRow]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        below, inner = _inner(field)
        # A server that is no item of `destinations` has the keys of one, which are there.
        if inner is None or issubclass(inner, Secret) or (inner is Destination and not below):
            yield SettingRow(key, _default(field), _unit(key, field), field.description or "")
        else:
            yield from _rows(inner, f"{key}{below}.")


def _inner(field: FieldInfo) -> tuple[str, type[BaseModel] | None]:
    """Return the model that a field holds, and how one of several is written: `[]` in a list, `.NAME` in a map."""
    origin, parts = get_origin(field.annotation), get_args(field.annotation)
    if origin is tuple:
        return "[]", inner_model(parts[0])
    if origin is dict:
        return ".NAME", inner_model(parts[1])
    return "", inner_model(field.annotation)


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else written(field.get_default(call_default_factory=True))


def written(value: Any) -> str:
    """Return a value as YAML has it; empty for none, and `{}` for a block."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, dict):
        return "{}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unit(key: str, field: FieldInfo) -> str:
    last = key.rsplit(".", 1)[-1].rsplit("_", 1)[-1]
    last = "seconds" if last == "s" else last
    return last if last in _UNITS and field.annotation in {int, float} else ""
