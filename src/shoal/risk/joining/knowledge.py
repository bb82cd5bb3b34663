"""What people know about datasets and sketches cannot show: labels of columns, and whether owners are identified.

[datasets.crm]
space = "identified"            # or "pseudonymous"; guessed from column names where nobody says
[datasets.crm.labels]
email = "email address"
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.sketch.files import SketchedDataset

IDENTIFIED, PSEUDONYMOUS = "identified", "pseudonymous"

_IDENTIFYING = re.compile(
    r"e_?mail|(first|last|full|sur|family|given)_?name|^name$|phone|mobile|msisdn|ssn|passport|iban"
)
_PSEUDONYM = re.compile(
    r"cookie|device|session|visitor|anon|pseudo|hash|token|uuid|guid|advert|idfa|gaid|click|browser"
)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Labels by (dataset, column), and the spaces of owners by dataset."""

    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    spaces: dict[str, str] = field(default_factory=dict)


def read_knowledge(path: str | Path) -> Knowledge:
    """Labels and spaces from a TOML file."""
    try:
        with Path(path).open("rb") as file:
            return knowledge_from(tomllib.load(file))
    except OSError as error:
        raise ShoalError("E_USAGE", f"The labels {str(path)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ShoalError("E_USAGE", f"The labels {str(path)!r} are not TOML.") from None


def knowledge_from(data: dict[str, Any]) -> Knowledge:
    """Labels and spaces from parsed TOML; whatever is not understood is refused."""
    datasets = data.get("datasets", {})
    if set(data) - {"datasets"} or not isinstance(datasets, dict):
        raise _wrong("A labels file has tables [datasets.NAME] only.")
    labels: dict[tuple[str, str], str] = {}
    spaces: dict[str, str] = {}
    for name, entry in datasets.items():
        if not isinstance(entry, dict) or set(entry) - {"space", "labels"}:
            raise _wrong(f"[datasets.{name}] has other keys than space and labels.")
        if "space" in entry:
            if entry["space"] not in {IDENTIFIED, PSEUDONYMOUS}:
                raise _wrong(f"The space of {name!r} is neither identified nor pseudonymous.")
            spaces[name] = entry["space"]
        given = entry.get("labels", {})
        if not isinstance(given, dict) or not all(isinstance(label, str) for label in given.values()):
            raise _wrong(f"The labels of {name!r} must be strings.")
        labels |= {(name, column): label for column, label in given.items()}
    return Knowledge(labels, spaces)


def _wrong(sentence: str) -> ShoalError:
    return ShoalError("E_USAGE", sentence, hint="shoal help risk-join shows how this is written.")


def spaces_of(datasets: Sequence[SketchedDataset], known: Knowledge) -> dict[str, tuple[str | None, bool]]:
    """For each dataset its space and whether that is a guess from names: (None, True) where names say nothing."""
    return {
        dataset.name: (known.spaces[dataset.name], False) if dataset.name in known.spaces else (_guessed(dataset), True)
        for dataset in datasets
    }


def _guessed(dataset: SketchedDataset) -> str | None:
    names = [_plain(column) for subject in dataset.sketches for column in subject]
    if any(_IDENTIFYING.search(name) for name in names):
        return IDENTIFIED
    if dataset.owner is not None and _PSEUDONYM.search(_plain(dataset.owner)):
        return PSEUDONYMOUS
    return PSEUDONYMOUS if any(_PSEUDONYM.search(name) for name in names) else None


def _plain(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
