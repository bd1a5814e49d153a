"""SQL expressions over the columns of a source, checked to look at one row alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

import polars as pl
from polars.exceptions import ComputeError, PolarsError
from sqlglot import ParseError, TokenError, exp, generator, parse_one, parser, tokens
from sqlglot.dialects.dialect import Dialect

from traceana.errors import DataError, did_you_mean
from traceana.ingesters.parsing import own_table

if TYPE_CHECKING:
    from sqlglot.expressions import Expression


Kind = Literal["text", "number", "time"]

_FUNCTIONS: Final = {
    kind: frozenset(names.split()) for kind, names in own_table("functions").items()
}
_ARITHMETIC: Final = frozenset(["Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "Neg"])
_COMPARED: Final[dict[str, Kind | None]] = {
    **dict.fromkeys(["EQ", "NEQ", "NullSafeEQ", "NullSafeNEQ"], "text"),
    **dict.fromkeys(["LT", "LTE", "GT", "GTE", "Between"], "number"),
    "In": None,
}
"""Comparisons, and the kind of what they compare where none of it has one."""
_LOGIC: Final = frozenset(["And", "Or", "Xor", "Not", "Is"])
_PATTERNS: Final = frozenset(["Like", "ILike", "RegexpLike", "DPipe"])
_PLAIN: Final = frozenset(["Literal", "Null", "Boolean", "DataType"])
_TOKENS: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[A-Za-z_]\w*|\s+|.", re.DOTALL)
_LONGEST: Final = 1 << 13
_MOST_OPERATORS: Final = 500
"""Polars parses a chain of operators in the square of its length."""
_OPERATORS: Final = re.compile(r"[-+*/%|<>=]|\b(?:and|or|not)\b", re.IGNORECASE)
_SHOWN: Final = 200


class MissingColumnError(DataError):
    """A mapping names a column that a source does not have."""


@dataclass
class Columns:
    """The columns of a source, and how those that expressions use are read."""

    names: Sequence[str]
    """The source's columns."""
    declared: Mapping[str, Kind] = field(default_factory=dict)
    """Kinds that the mapping declares, by column."""
    literals: Mapping[str, str] = field(default_factory=dict)
    """Values of pseudo-columns, such as ``file_name``."""
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    """Types of columns, also of those that cannot be read."""
    used: dict[str, set[Kind]] = field(default_factory=dict)
    """The kinds in which each column is used so far."""
    named: set[str] = field(default_factory=set)
    """Internal names of the columns that the expressions of a target use."""
    casts: list[tuple[pl.Expr, pl.Expr]] = field(default_factory=list)
    """Casts that a row may fail, and what each is of."""
    typed: bool = False
    """Whether the columns have types already, and are used under their own names."""

    def use(self, name: str, kind: Kind, where: str) -> str:
        """Return the internal name of a column that an expression uses."""
        if name not in self.names:
            if dtype := self.types.get(name):
                raise MissingColumnError(
                    f"{where}: column {_brief(name)} has type {dtype.base_type()}, which is not "
                    "read; write its values as text or numbers"
                )
            hint = did_you_mean(name, self.names, shown=repr)
            missing = "no column is called" if self.typed else "the source has no column"
            listed = f"it has {', '.join(map(_brief, self.names[:30])) or 'no columns'}"
            raise MissingColumnError(f"{where}: {missing} {_brief(name)}{hint}; {listed}")
        if self.typed:
            return name
        kinds = self.used.setdefault(name, set())
        declared = self.declared.get(name, kind)
        kinds.add(declared)
        if declared == "text" and kind == "number":  # a number where the expression needs one
            kinds.add("number")
            declared = "number"
        self.named.add(view_name(name, declared))
        return view_name(name, declared)


def view_name(name: str, kind: str, /) -> str:
    """Return the internal name of a column read as a kind; no source has a name with a NUL."""
    return f"{name}\0{kind}"


def compile_expression(text: str, want: Kind, columns: Columns, /, *, where: str) -> pl.Expr:
    """Return a column or an SQL expression over a source's columns."""
    if text in columns.names:
        return pl.col(columns.use(text, want, where))
    try:
        tree = _parse(text, columns, where)
        return _build(_Walk(columns, where, text).walk(tree, want))
    except (RecursionError, ComputeError):  # Polars stops at some fifty levels
        raise DataError(
            f"{where}: {_brief(text)} has too many terms; state the values of a column by "
            "{ column, values }, or compute it beforehand"
        ) from None


def row_condition(text: str, names: Sequence[str], /, *, where: str) -> pl.Expr:
    """Return an SQL condition over the columns of a table."""
    return compile_expression(text, "text", Columns(names, typed=True), where=where)


def bare_column(text: str, columns: Columns, /) -> str | None:
    """Return the column that a text names, or None where it is another expression."""
    if text in columns.names:
        return text
    if len(text) > _LONGEST:
        return None
    try:
        node = _tree(_quote_names(text, columns.names))
    except (PolarsError, ValueError, RecursionError):
        return None
    return _name_of(node) if type(node).__name__ == "Column" else None


def _quote_names(text: str, names: Sequence[str]) -> str:
    tokens = _TOKENS.findall(text)
    spelled = {*names, *(name.lower() for name in names)}  # User as well, to name user in its error
    for place, token in enumerate(tokens):
        after = next((each for each in tokens[place + 1 :] if not each.isspace()), "")
        is_column = not spelled.isdisjoint((token, token.lower())) and after not in ("(", ".")
        if is_column and token.lower() not in _FUNCTIONS["words"] and token[0] not in "'\"":
            tokens[place] = f'"{token}"'
    return "".join(tokens)


def _tree(text: str) -> Expression:
    """Parse an expression; functions keep their names."""
    try:
        return cast("Expression", parse_one(text, dialect=Rows))
    except (ParseError, TokenError) as error:
        raise ValueError(str(error).splitlines()[0]) from None


def _parse(text: str, columns: Columns, where: str) -> Expression:
    quoted = _quote_names(text, columns.names)
    if len(text) > _LONGEST or len(_OPERATORS.findall(text)) > _MOST_OPERATORS:
        raise RecursionError
    try:
        pl.sql_expr(quoted)
    except PolarsError as error:
        reason = str(error).splitlines()[0]
    else:
        try:
            node = _tree(quoted)
        except ValueError as error:
            raise _refused(text, str(error), where) from None
        if type(node).__name__ != "Alias":  # two words are an expression and its alias
            return node
        reason = "an alias is not needed"
    hint = did_you_mean(text, columns.names, shown="the column {!r}".format)
    if columns.typed:
        raise DataError(f"{where} {_brief(text)}: not an SQL condition ({_brief(reason, str)})")
    raise MissingColumnError(
        f"{where}: {_brief(text)} is neither a column of the source{hint} nor an SQL "
        f"expression ({_brief(reason, str)}); put names with other signs, and SQL's own words, "
        "in double quotes"
    )


def _name_of(column: Expression) -> str:
    """Return a column's name; a member of an object is ``outer.inner``."""
    return ".".join(part.name for part in column.parts)  # type: ignore[attr-defined]


def _brief(text: str, form: Callable[[str], str] = repr) -> str:
    return form(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _build(node: Expression) -> pl.Expr:
    return pl.sql_expr(node.sql(dialect=Rows))


def _refused(text: str, what: str, where: str) -> DataError:
    return DataError(
        f"{where}: {_brief(text)} cannot be used ({_brief(what, str)}): an expression looks at "
        "one row; aggregates, windows, times of now and functions of several rows are refused"
    )


@dataclass(frozen=True)
class _Walk:
    """Checks an expression's tree and replaces each column by its view."""

    columns: Columns
    where: str
    text: str
    guarded: bool = False  # both arms of CASE are computed for every row

    def walk(self, node: Expression, want: Kind | None) -> Expression:
        kind = type(node).__name__
        if kind == "Column":
            return self._column(node, want)
        if kind in _PLAIN:
            is_decimal = kind == "Literal" and not node.is_string and "." in node.name
            return exp.Literal.number(f"{float(node.name):.17e}") if is_decimal else node
        if kind in ("Case", "If"):
            return self._case(node, want)
        if kind in ("Cast", "TryCast"):
            return self._cast(node)
        kind_of_members = self._kind_of_members(node, want)
        for member in _members(node):
            member.replace(self.walk(member, kind_of_members))
        return node

    def _kind_of_members(self, node: Expression, want: Kind | None) -> Kind | None:
        kind = type(node).__name__
        if kind == "Paren":
            return want
        if kind in _ARITHMETIC:
            return "text" if want == "text" else "number"
        if kind in _COMPARED:
            return self._kind_of(*_members(node)) or _COMPARED[kind]
        if kind in _LOGIC:
            return None
        if kind in _PATTERNS:
            return "text"
        if kind == "Anonymous":
            return self._kind_of_arguments(node, want)
        raise self._refused(kind)

    def _column(self, node: Expression, want: Kind | None) -> Expression:
        name = _name_of(node)
        if name in self.columns.literals and name not in self.columns.names:
            return exp.Literal.string(self.columns.literals[name])
        view = self.columns.use(name, want or "text", self.where)
        return exp.Column(this=exp.to_identifier(view, quoted=True))

    def _case(self, node: Expression, want: Kind | None) -> Expression:
        arms = _arms(node)
        compared = node.args.get("this") if type(node).__name__ == "Case" else None
        tests = [case.this for case in node.args.get("ifs") or [node]]
        kind = self._kind_of(compared, *tests) or "text" if compared is not None else None
        guarded, kind_of_arms = replace(self, guarded=True), self._kind_of(*arms) or want
        for arm in arms:
            arm.replace(guarded.walk(arm, kind_of_arms))
        for test in tests if compared is None else [*tests, compared]:
            test.replace(self.walk(test, kind))
        return node

    def _cast(self, node: Expression) -> Expression:
        """Replace a failing cast by null, which breaks a rule."""
        inner = self.walk(node.this, None)
        done = exp.TryCast(this=inner, to=node.args["to"].copy())
        if type(node).__name__ == "Cast" and not self.guarded:
            self.columns.casts.append((_build(done), _build(inner)))
        return done

    def _kind_of_arguments(self, node: Expression, want: Kind | None) -> Kind | None:
        name = node.name.upper()
        if name in ("LPAD", "RPAD") and not re.fullmatch(r"\d{1,3}", node.expressions[1].sql()):
            raise DataError(f"{self.where}: {_brief(self.text)} may pad to 999 characters at most")
        if any(name in _FUNCTIONS[kind] for kind in ("text", "lengths", "tests")):
            return "text"
        if name in _FUNCTIONS["numbers"]:
            return "number"
        if name in _FUNCTIONS["either"]:
            return self._kind_of(*node.expressions) or want
        raise self._refused(name)

    def _kind_of(self, *nodes: Expression | None) -> Kind | None:
        """Return the kind that literals, functions and declared columns among some nodes have."""
        given = [node for node in nodes if node is not None]
        literals_first = sorted(given, key=lambda node: type(node).__name__ == "Column")
        return next(filter(None, map(self._kind, literals_first)), None)

    def _kind(self, node: Expression) -> Kind | None:  # noqa: PLR0911  a table
        kind = type(node).__name__
        if kind == "Literal":
            return "text" if node.is_string else "number"
        if kind == "Column":
            name = _name_of(node)
            if name in self.columns.declared:
                return self.columns.declared[name]
            return "text" if name in self.columns.literals else None
        if kind in ("Paren", "Neg"):
            return self._kind(node.this)
        if kind in ("Case", "If"):
            return self._kind_of(*_arms(node))
        if kind == "DPipe":
            return "text"
        if kind == "Anonymous":
            name = node.name.upper()
            if name in _FUNCTIONS["text"]:
                return "text"
            if name in _FUNCTIONS["numbers"] | _FUNCTIONS["lengths"]:
                return "number"
            return self._kind_of(*node.expressions) if name in _FUNCTIONS["either"] else None
        return None

    def _refused(self, what: str) -> DataError:
        return _refused(self.text, what, self.where)


def _members(node: Expression) -> list[Expression]:
    return [part for part in node.iter_expressions() if isinstance(part, exp.Expression)]


def _arms(case: Expression) -> list[Expression]:
    ifs = case.args.get("ifs")
    arms = [test.args["true"] for test in ifs] if ifs else [case.args["true"]]
    last = case.args.get("default" if ifs else "false")
    return [*arms, *([] if last is None else [last])]


class Rows(Dialect):
    """Expressions over one row; each function is read and written as it stands."""

    class Tokenizer(tokens.Tokenizer):
        """Adds Polars' whole-number division."""

        KEYWORDS: ClassVar[dict[str, Any]] = {
            **tokens.Tokenizer.KEYWORDS,
            "//": tokens.Tokenizer.KEYWORDS["DIV"],
        }

    class Parser(parser.Parser):
        """Knows no function but CAST, so that none is renamed."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }

    class Generator(generator.Generator):
        """Writes what Polars reads."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **generator.Generator.TRANSFORMS,
            exp.IntDiv: lambda self, node: self.binary(node, "//"),
        }
