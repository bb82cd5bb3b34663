"""How a collection is made, as frozen data, and the relation of a plan that each recipe binds to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Column
from shoal.plan.lineage import lineage, owner_names
from shoal.plan.traverse import is_owned
from shoal.plan.types import Kind, common_type
from shoal.rewrite.check_ownership import Ownership
from shoal.sql import functions
from shoal.sql.binding.clauses.from_clause import FromBinder
from shoal.sql.binding.context import CommonTable, Scope
from shoal.sql.parse import has_privacy_clause, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Field, Node, PythonStep
    from shoal.plan.types import Type
    from shoal.sql.binding.statement import Binder

THIS = "this"


@dataclass(frozen=True, slots=True)
class Stored:
    """The rows of a private table."""

    table: str

    def bind(self, binder: Binder) -> Node:
        """A scan."""
        table = binder.context.catalog.table(self.table)
        if table is None:
            known = sorted(t.name for t in binder.context.catalog.tables.values() if not t.public)
            raise ShoalError(
                "E_UNKNOWN_TABLE",
                "There is no such table in the catalog.",
                hint=f"Private tables: {', '.join(known[:30])}.",
            )
        if table.public:
            raise ShoalError(
                "E_USAGE",
                f"The table {table.name!r} is public, and a collection holds private records.",
                hint=f"Join it: .join_public({table.name!r}, on=[…]).",
            )
        binder.context.count_relations(1, None)
        return FromBinder(binder, Scope(), {}).scan(table.name)

    def __str__(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True)
class Transformed:
    """What a function makes of records. A filter has no schema: its records stay what they were."""

    input: Recipe
    step: PythonStep
    schema: tuple[tuple[str, Type], ...] | None

    def bind(self, binder: Binder) -> Node:
        """A node that the owner passes by."""
        below = self.input.bind(binder)
        owners = lineage(below)
        seen = fields_seen(below)
        arguments = tuple((f.name, Column(f.symbol, f.type)) for f in seen)
        if self.schema is None:
            fields = tuple(binder.context.symbols.field(name, v.type, v) for name, v in arguments)
        else:
            self._refuse_forged(owner_names(below))
            fields = tuple(binder.context.symbols.field(name, type_) for name, type_ in self.schema)
        carried = [
            (binder.context.symbols.field(f.name, f.type, Column(f.symbol, f.type)), Column(f.symbol, f.type))
            for f in below.fields
            if f.symbol in owners
        ]
        return nodes.PythonRows(below, self.step, arguments, fields, tuple(carried[:1]))

    def _refuse_forged(self, names: frozenset[str]) -> None:
        for name, _ in self.schema or ():
            if fold(name) in names:
                raise ShoalError(
                    "E_UID_FORGED",
                    f"The schema names the owner, {name!r}, which no function can make.",
                    hint="Give the field another name; the owner is carried along by itself.",
                )

    def __str__(self) -> str:
        return f"{self.input}; {self.step}"


@dataclass(frozen=True, slots=True)
class Selected:
    """A SELECT over the collection, which it calls `this`."""

    input: Recipe
    sql: str

    def bind(self, binder: Binder) -> Node:
        """What SQL binds to, without any release in it."""
        statement = parse(self.sql)
        if statement.explain or has_privacy_clause(statement):
            raise ShoalError(
                "E_USAGE",
                "The SQL of a collection transforms records and releases nothing.",
                hint="Leave out the privacy clause, and call .release(…) at the end.",
            )
        try:
            below = self.input.bind(binder)
            node = binder.query(statement.tree, {THIS: CommonTable(below, 1)}, None)
        except ShoalError as error:
            raise error.located(self.sql) if error.sql is None else error from None
        if not is_owned(node):
            raise ShoalError("E_UID_LOST", "This SQL reads no private records.", hint="Write SELECT … FROM this …")
        return node

    def __str__(self) -> str:
        return f"{self.input}; sql {' '.join(self.sql.split())}"


@dataclass(frozen=True, slots=True)
class Joined:
    """Records of two collections that have the same owner."""

    left: Recipe
    right: Recipe
    how: str

    def bind(self, binder: Binder) -> Node:
        """A join on the owner, with the other fields of both sides."""
        (left, left_owner), (right, right_owner) = (
            with_owner(binder, side.bind(binder)) for side in (self.left, self.right)
        )
        self._refuse_clash(left, right)
        if left_owner.type.plain() != right_owner.type.plain():
            raise ShoalError(
                "E_JOIN_NOT_ON_UID",
                "The owners of the two collections are of different types.",
                hint="Cast one in the catalog.",
            )
        same = functions.resolve("equal", [_column(left_owner), _column(right_owner)], None)
        joined = nodes.Join(left, right, self.how, same)
        fields = [
            f for side in (left, right) for f in side.fields if f.symbol not in {left_owner.symbol, right_owner.symbol}
        ]
        return binder.project(joined, [(f.name, _column(f)) for f in (left_owner, *fields)])

    @staticmethod
    def _refuse_clash(left: Node, right: Node) -> None:
        names = [{fold(f.name) for f in fields_seen(side)} for side in (left, right)]
        if clash := names[0] & names[1]:
            raise ShoalError(
                "E_USAGE",
                f"Both collections have a field {min(clash)!r}.",
                hint='Rename it in one of them: .sql("SELECT day AS first_day, … FROM this").',
            )

    def __str__(self) -> str:
        return f"{self.input_of(self.left)} {self.how} join {self.input_of(self.right)}"

    @staticmethod
    def input_of(recipe: Recipe) -> str:
        """A side, in parentheses where it is more than a table."""
        return str(recipe) if isinstance(recipe, Stored) else f"({recipe})"


@dataclass(frozen=True, slots=True)
class United:
    """The records of two collections with the same fields."""

    left: Recipe
    right: Recipe

    def bind(self, binder: Binder) -> Node:
        """UNION ALL, fields matched by name, owners at the same place."""
        (left, left_owner), (right, right_owner) = (
            with_owner(binder, side.bind(binder)) for side in (self.left, self.right)
        )
        mine, others = fields_seen(left), {fold(f.name): f for f in fields_seen(right)}
        if {fold(f.name) for f in mine} != set(others):
            raise ShoalError(
                "E_USAGE",
                "The two collections have different fields.",
                hint="Bring both to the same with .select(…) or .map(…).",
            )
        pairs = [(left_owner, right_owner), *((f, others[fold(f.name)]) for f in mine)]
        types = [_common(a, b) for a, b in pairs]
        sides = [
            binder.project(side, [(f.name, _cast(f, t)) for f, t in zip(chosen, types, strict=True)])
            for side, chosen in zip((left, right), zip(*pairs, strict=True), strict=True)
        ]
        fields = tuple(binder.context.symbols.field(f.name, t) for (f, _), t in zip(pairs, types, strict=True))
        return nodes.SetOperation(sides[0], sides[1], "union_all", fields)

    def __str__(self) -> str:
        return f"{Joined.input_of(self.left)} union {Joined.input_of(self.right)}"


Recipe = Stored | Transformed | Selected | Joined | United


def fields_seen(node: Node) -> list[Field]:
    """What a function sees of a record: named fields of types that values can have, the owner left out."""
    owners = lineage(node)
    return [f for f in node.fields if f.name and f.symbol not in owners and f.type.kind is not Kind.UNSUPPORTED]


def with_owner(binder: Binder, node: Node) -> tuple[Node, Field]:
    """The relation with fresh names for all fields that are seen and for its owner, and the owner."""
    owned = Ownership(binder.context.references).own(node, ())
    if owned is None or owned.node.owner is None:
        raise ShoalError(
            "E_UID_LOST", "No one column holds the owner of these records.", hint="Select the owner first."
        )
    seen = fields_seen(node)
    owner = nodes.field_of(owned.node, owned.node.owner)
    whole = binder.project(owned.node, [(f.name, _column(f)) for f in (owner, *seen)])
    return whole, whole.fields[0]


def _column(field: Field) -> Column:
    return Column(field.symbol, field.type)


def _common(left: Field, right: Field) -> Type:
    found = common_type([left.type, right.type])
    if found is None:
        raise ShoalError(
            "E_USAGE", f"The field {left.name!r} has different types in the two collections.", hint="Cast one of them."
        )
    return found


def _cast(field: Field, type_: Type) -> Expression:
    value = _column(field)
    return value if field.type.plain() == type_.plain() else functions.resolve_cast(value, type_, None)


def quoted(names: Sequence[str]) -> str:
    """Names as SQL writes them."""
    return ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names)


def steps_in(recipe: Recipe) -> list[Transformed]:
    """The functions at the end of a recipe, in the order in which they run."""
    found: list[Transformed] = []
    while isinstance(recipe, Transformed):
        found.append(recipe)
        recipe = recipe.input
    return found[::-1]
