"""SQL expressions over the columns of a source, checked to look at one row alone."""

from __future__ import annotations

import difflib
import io
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl
from polars.exceptions import ComputeError, PolarsError

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Kind = Literal["text", "number", "time"]
"""How a cell of a source is read."""

_ARITHMETIC: Final = {"Plus", "Minus", "Multiply", "Divide", "TrueDivide", "FloorDivide", "Modulus"}
_COMPARISONS: Final = {
    *("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "EqValidity", "NotEqValidity"),
}
_LOGIC: Final = {"And", "Or", "Xor", "LogicalAnd", "LogicalOr"}
_OF_NUMBERS: Final = {
    *("Abs", "Ceil", "Floor", "Exp", "Log", "Log1p", "Sign", "Negate", "Pow", "Round", "Truncate"),
    *("Sql", "RoundSF"),
}
_OF_EITHER: Final = {"Coalesce", "FillNull", "MaxHorizontal", "MinHorizontal"}
_BOOLEAN: Final = {"Not", "IsNull", "IsNotNull", "IsIn", "IsNan", "IsFinite", "IsBetween"}
_LITERALS: Final = {"String", "Boolean", "Null", "Decimal"}
_NOT_OF_ROWS: Final = {"ConcatVertical", "Strptime"}
_LONGEST: Final = 1 << 13
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
    used: dict[str, set[Kind]] = field(default_factory=dict)
    """The kinds in which each column is used so far."""
    casts: list[tuple[pl.Expr, pl.Expr]] = field(default_factory=list)
    """Casts that a row may fail, and what each is of."""

    def use(self, name: str, kind: Kind, where: str) -> str:
        """Note that a column is used, and return the name under which it is read in that kind."""
        if name not in self.names:
            close = difflib.get_close_matches(name, self.names, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise MissingColumnError(
                f"{where}: the source has no column {_brief(name)}{hint}; "
                f"it has {', '.join(map(_brief, self.names[:30]))}"
            )
        kind = self.declared.get(name, kind)
        self.used.setdefault(name, set()).add(kind)
        return view_name(name, kind)


def view_name(name: str, kind: Kind, /) -> str:
    """Return the internal name of a column read as a kind; no source has a name with a NUL."""
    return f"{name}\0{kind}"


def compile_expression(text: str, want: Kind, columns: Columns, /, *, where: str) -> pl.Expr:
    """Return a column or an SQL expression over a source's columns.

    Parameters
    ----------
    text
        A column's name, or an SQL expression.
    want
        Type of the expression, which decides how the columns in it are read.
    where
        What it is for, for messages.
    """
    try:
        return _build(_Walk(columns, where, text).walk(_parse(text, columns, where), want))
    except (RecursionError, ComputeError):  # Polars stops at some fifty levels
        raise DataError(
            f"{where}: {_brief(text)} has too many terms; state the values of a column by "
            "{ column, values }, or compute it beforehand"
        ) from None


def bare_column(text: str, columns: Columns, /) -> str | None:
    """Return the column that a text names, or None where it is another expression."""
    if text in columns.names:
        return text
    try:
        node = _tree(text)
    except (PolarsError, ValueError, RecursionError):
        return None
    return node["Column"] if isinstance(node, dict) and "Column" in node else None


def _tree(text: str) -> Any:  # noqa: ANN401
    if len(text) > _LONGEST:  # minutes, for Polars
        raise RecursionError
    return json.loads(pl.sql_expr(text).meta.serialize(format="json"))


def _parse(text: str, columns: Columns, where: str) -> Any:  # noqa: ANN401  a tree of JSON
    if text in columns.names:
        return {"Column": text}
    try:
        node = _tree(text)
        reason = "an alias is not needed"
    except PolarsError as error:
        node, reason = {"Alias": None}, str(error).splitlines()[0]
    if isinstance(node, dict) and "Alias" in node:  # two words are an expression and its alias
        close = difflib.get_close_matches(text, columns.names, n=1)
        hint = f" (did you mean the column {close[0]!r}?)" if close else ""
        raise MissingColumnError(
            f"{where}: {_brief(text)} is neither a column of the source{hint} nor an SQL "
            f"expression ({_brief(reason, str)}); put names with other signs, and SQL's own words, "
            "in double quotes"
        )
    return _members(node)


def _members(node: Any) -> Any:  # noqa: ANN401
    """Make a member of an object, ``a.b`` in SQL, the column of that name."""
    match node:
        case {"Function": {"input": [inner], "function": {"StructExpr": {"FieldByName": name}}}}:
            outer = _members(inner)
            return {"Column": f"{outer['Column']}.{name}"} if "Column" in outer else node
        case dict():
            return {key: _members(value) for key, value in node.items()}
        case list():
            return [_members(value) for value in node]
    return node


def _brief(text: str, form: Callable[[str], str] = repr) -> str:
    return form(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _build(node: Any) -> pl.Expr:  # noqa: ANN401
    return pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")


@dataclass(frozen=True)
class _Walk:
    """Checks an expression's tree and replaces each column by its view."""

    columns: Columns
    where: str
    text: str
    guarded: bool = False  # both arms of CASE are computed for every row

    def walk(self, node: Any, want: Kind | None) -> Any:  # noqa: ANN401, PLR0911
        if not isinstance(node, dict):
            raise self._refused(str(node))
        (kind, body), *_ = node.items()
        if kind == "Column":
            if body in self.columns.literals and body not in self.columns.names:
                return {"Literal": {"Scalar": {"String": self.columns.literals[body]}}}
            return {"Column": self.columns.use(body, want or "text", self.where)}
        if kind == "Literal":
            return self._literal(body, node)
        if kind == "BinaryExpr":
            sides = (body["left"], body["right"])
            if body["op"] in _COMPARISONS:
                equal = body["op"] in ("Eq", "NotEq", "EqValidity", "NotEqValidity")
                want = self._kind_of(*sides) or ("text" if equal else "number")
            elif body["op"] in _ARITHMETIC:
                want = "text" if want == "text" else "number"
            elif body["op"] in _LOGIC:
                want = None
            else:
                raise self._refused(body["op"])
            left, right = (self.walk(side, want) for side in sides)
            return {kind: {"left": left, "op": body["op"], "right": right}}
        if kind == "Ternary":
            predicate = self.walk(body["predicate"], None)
            arm = replace(self, guarded=True)
            want = self._kind_of(body["truthy"], body["falsy"]) or want
            arms = {name: arm.walk(body[name], want) for name in ("truthy", "falsy")}
            return {kind: {"predicate": predicate, **arms}}
        if kind == "Cast":
            return self._cast(body)
        if kind == "Function":
            return self._function(body, want)
        raise self._refused(kind)

    def _cast(self, body: dict[str, Any]) -> dict[str, Any]:
        """Replace a failing cast by null, which breaks a rule."""
        inner = self.walk(body["expr"], None)
        cast = {"Cast": body | {"expr": inner, "options": "NonStrict"}}
        if body["options"] != "NonStrict" and not self.guarded:
            self.columns.casts.append((_build(cast), _build(inner)))
        return cast

    def _function(self, body: dict[str, Any], want: Kind | None) -> dict[str, Any]:
        function, inputs = body["function"], body["input"]
        name, detail = (
            next(iter(function.items())) if isinstance(function, dict) else (function, "")
        )
        inner = next(iter(detail)) if isinstance(detail, dict) else str(detail)
        if name == "StringExpr" and inner not in _NOT_OF_ROWS:
            kind: Kind | None = "text"
        elif (name, inner) == ("Sql", "IsIn") or (name == "Boolean" and inner in _BOOLEAN):
            kind = self._kind_of(*inputs)
        elif name in _OF_NUMBERS:
            kind = "number"
        elif name in _OF_EITHER:
            kind = self._kind_of(*inputs) or want
        elif name == "ListExpr" and inner == "Get":  # SPLIT_PART
            kind = "text"
        else:
            raise self._refused(f"{name} {inner}".strip())
        return {"Function": body | {"input": [self.walk(one, kind) for one in inputs]}}

    def _literal(self, body: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
        (form, value), *_ = body.items()
        if form == "Scalar":
            (form, value), *_ = value.items()
            if form == "Decimal":
                return {"Literal": {"Dyn": {"Float": value[0] / 10 ** value[2]}}}
            if form not in _LITERALS and not form.startswith(("Int", "UInt", "Float")):
                raise self._refused(f"a literal of type {form} (now() among them)")
        return node

    def _kind_of(self, *nodes: Any) -> Kind | None:  # noqa: ANN401, PLR0911
        """Return the kind that literals, functions and declared columns among some nodes have."""
        for node in nodes:
            if not isinstance(node, dict):
                continue
            (kind, body), *_ = node.items()
            if kind == "Literal":
                dtype = pl.select(_build(node)).to_series().dtype
                inner = dtype.inner if isinstance(dtype, pl.List) else dtype
                if inner not in (pl.Null, pl.Boolean):
                    return "text" if inner == pl.String else "number"
            elif kind == "Column" and body in self.columns.declared:
                return self.columns.declared[body]
            elif kind == "Column" and body in self.columns.literals:
                return "text"
            elif kind == "Ternary" and (found := self._kind_of(body["truthy"], body["falsy"])):
                return found
            elif kind == "Function":
                function = body["function"]
                name = next(iter(function)) if isinstance(function, dict) else function
                if name == "StringExpr":
                    return "number" if function[name] == "LenChars" else "text"
                if name in _OF_NUMBERS:
                    return "number"
                if name == "ListExpr":
                    return "text"
                if name in _OF_EITHER and (found := self._kind_of(*body["input"])):
                    return found
        return None

    def _refused(self, what: str) -> DataError:
        return DataError(
            f"{self.where}: {_brief(self.text)} cannot be used ({what}): an expression looks at "
            "one row; aggregates, windows, times of now and functions of several rows are refused"
        )
