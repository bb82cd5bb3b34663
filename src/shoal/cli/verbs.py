"""All verbs of the command line, and the heading under which `shoal --help` shows each."""

from __future__ import annotations

from shoal.cli.asking.shell import shell
from shoal.cli.asking.tables import tables
from shoal.cli.budget import budget
from shoal.cli.demo import demo
from shoal.cli.explain import explain
from shoal.cli.init import init
from shoal.cli.lookup.functions import functions
from shoal.cli.lookup.help import help_
from shoal.cli.query import query
from shoal.cli.root import bare
from shoal.cli.serving import upkeep
from shoal.cli.serving.serve import serve
from shoal.cli.serving.tune import tune
from shoal.cli.theory import definitions
from shoal.cli.theory.compose import compose
from shoal.cli.theory.convert import convert
from shoal.cli.theory.group import group
from shoal.cli.theory.meaning import meaning
from shoal.cli.theory.subsample import subsample
from shoal.cli.tools import anonymity, attack, knowledge, local, policy, risk
from shoal.cli.tools.audit import audit

app = bare()
_QUERIES, _TOOLS, _CALCULATORS, _REFERENCE = "Private queries", "Other tools", "Calculators (read no data)", "Reference"
for verb in (demo, init, tables, query, shell, explain, budget, serve, tune):
    app.command(rich_help_panel=_QUERIES)(verb)
app.add_typer(upkeep.app, rich_help_panel=_QUERIES)
app.command(rich_help_panel=_TOOLS)(audit)
for verbs in (risk.app, anonymity.app, knowledge.app, local.app, attack.app):
    app.add_typer(verbs, rich_help_panel=_TOOLS)
for calculator in (meaning, compose, convert, group, subsample):
    app.command(rich_help_panel=_CALCULATORS)(calculator)
for verbs in (policy.app, definitions.app):
    app.add_typer(verbs, rich_help_panel=_CALCULATORS)
app.command("help", rich_help_panel=_REFERENCE)(help_)
app.command(rich_help_panel=_REFERENCE)(functions)
