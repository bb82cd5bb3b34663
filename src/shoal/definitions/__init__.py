"""The catalogue of privacy definitions: what they say, how they relate, and which one to choose.

>>> from shoal import definitions as d
>>> len(d.all()), d.get("renyi-dp").name
(186, 'Rényi differential privacy')
>>> d.relation("node-dp", "edge-dp").kind, [step.target for step in d.path("dp", "kl-privacy")]
('stronger', ['kl-privacy'])
>>> d.guide(protects="place").definition
'geo-indistinguishability'
"""

from __future__ import annotations

from shoal.definitions.advice import Advice, guide
from shoal.definitions.catalogue import Definition, all_definitions, dimensions, find, get
from shoal.definitions.page import to_html
from shoal.definitions.relations import Relation, Step, path, relation

all = all_definitions  # noqa: A001 - `definitions.all()` is what people write

__all__ = [
    "Advice",
    "Definition",
    "Relation",
    "Step",
    "all",
    "dimensions",
    "find",
    "get",
    "guide",
    "path",
    "relation",
    "to_html",
]
