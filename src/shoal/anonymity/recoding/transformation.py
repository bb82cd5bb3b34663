"""A recoding that can be used again: hierarchies, levels and demands of a global one, the cuts of a local one, as TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal.anonymity.hierarchies.folders import hierarchy_from
from shoal.anonymity.recoding.local_cuts import LocalCuts
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.anonymity.hierarchies.hierarchy import Hierarchy

FORMAT = 1
Recoding = Literal["global", "local"]
_KEYS = {
    "format", "recoding", "quasi", "sensitive", "sampling", "demands", "distances", "levels", "hierarchies", "local",
}  # fmt: skip


def _wrong(message: str) -> ShoalError:
    return ShoalError("E_USAGE", message, hint="Save a transformation again: --save t.toml.")


@dataclass(frozen=True)
class Transformation:
    """How a table was recoded, and what was demanded of it."""

    quasi: tuple[str, ...]
    recoding: Recoding
    demands: Mapping[str, Any]
    sensitive: tuple[str, ...] = ()
    distances: Mapping[str, Any] = field(default_factory=dict)
    sampling: float | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    local: LocalCuts | None = None

    def to_dict(self) -> dict[str, object]:
        """As it is stored."""
        found: dict[str, object] = {
            "format": FORMAT,
            "recoding": self.recoding,
            "quasi": list(self.quasi),
            "sensitive": list(self.sensitive),
        }
        if self.sampling is not None:
            found["sampling"] = self.sampling
        found["demands"] = dict(self.demands)
        found["distances"] = dict(self.distances)
        if self.local is not None:
            return found | {"local": self.local.to_dict()}
        hierarchies = {column: hierarchy.to_dict() for column, hierarchy in self.hierarchies.items()}
        return found | {"levels": dict(self.levels), "hierarchies": hierarchies}

    def save(self, path: str | Path) -> None:
        """Write it as TOML. The file holds values of the data where a hierarchy lists them."""
        lines = [*_toml(self.to_dict(), ())]
        try:
            Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
        except OSError as error:
            raise ShoalError(
                "E_USAGE", f"The transformation {str(path)!r} was not written: {error.strerror}."
            ) from None

    @classmethod
    def read(cls, path: str | Path) -> Transformation:
        """Read what `save` has written."""
        try:
            with Path(path).open("rb") as file:
                data = tomllib.load(file)
        except OSError as error:
            raise _wrong(f"The transformation {str(path)!r} cannot be read: {error.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise _wrong(f"The transformation {str(path)!r} is not TOML.") from None
        try:
            return _from(data)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise _wrong(f"The transformation {str(path)!r} is damaged.") from None


def _from(data: Mapping[str, Any]) -> Transformation:
    if data.get("format") != FORMAT or set(data) - _KEYS:
        raise ValueError("another format")
    recoding = data["recoding"]
    if recoding not in {"global", "local"}:
        raise ValueError("no such recoding")
    quasi = tuple(str(name) for name in data["quasi"])
    hierarchies = {column: hierarchy_from(column, entry) for column, entry in data.get("hierarchies", {}).items()}
    levels = {column: int(level) for column, level in data.get("levels", {}).items()}
    if recoding == "global" and (set(levels) != set(quasi) or set(hierarchies) != set(quasi)):
        raise ValueError("a level and a hierarchy for each column")
    return Transformation(
        quasi=quasi,
        recoding=recoding,
        demands=dict(data["demands"]),
        sensitive=tuple(data.get("sensitive", ())),
        distances={
            column: hierarchy_from(column, entry) if isinstance(entry, Mapping) else entry
            for column, entry in data.get("distances", {}).items()
        },
        sampling=data.get("sampling"),
        levels=levels,
        hierarchies=hierarchies,
        local=LocalCuts.from_dict(data["local"]) if recoding == "local" else None,
    )


def _toml(table: Mapping[str, Any], above: tuple[str, ...]) -> list[str]:
    """A table as TOML: its own values first, then the tables in it."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = [f"{_text(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in inner.items():
        name = ".".join(_text(part) for part in (*above, key))
        lines += ["", f"[{name}]", *_toml(value, (*above, key))]
    return lines


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Sequence):
        parts = [_value(part) for part in value]
        nested = any(isinstance(part, (list, tuple)) for part in value)
        return "[\n  " + ",\n  ".join(parts) + ",\n]" if nested and parts else "[" + ", ".join(parts) + "]"
    raise TypeError("not a value of TOML")
