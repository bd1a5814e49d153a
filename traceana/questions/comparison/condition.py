"""Conditions on changes, such as ``median_wait_s > 1.2 * before``: arithmetic, and nothing else."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any, Final

from traceana.errors import DataError
from traceana.questions.comparison.changes import MEASURES, describe_changes

if TYPE_CHECKING:
    import polars as pl

_BINARY: Final[dict[type, Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARED: Final[dict[type, Any]] = {
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_LONGEST: Final = 500
_FORM: Final = "write a comparison such as 'median_wait_s > 1.2 * before'"


def holds(changes: pl.DataFrame, condition: str, /) -> bool:
    """Return whether a condition on changes holds.

    It compares a measure, which has its value after, with numbers and arithmetic; ``before`` and
    ``after`` are the values of the measure in the same comparison. Comparisons are joined by
    ``and``, ``or`` and ``not``.
    """
    check_condition(condition)
    return _truth(_parsed(condition), describe_changes(changes), condition)


def check_condition(condition: str, /) -> None:
    """Check that a text is a condition, without its values."""
    example = {name: {"before": 1.0, "after": 1.0} for name in MEASURES}
    tree = _parsed(condition)
    for node in ast.walk(tree):  # also what the example's values skip
        if isinstance(node, ast.Compare):
            _comparison(node, example, condition)
    _truth(tree, example, condition)


def _parsed(condition: str) -> ast.expr:
    try:
        return ast.parse(condition.strip()[:_LONGEST], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise DataError(f"condition {condition[:80]!r} cannot be read; {_FORM}") from None


def _truth(node: ast.expr, values: dict[str, dict[str, Any]], condition: str) -> bool:
    if isinstance(node, ast.BoolOp):
        parts = [_truth(part, values, condition) for part in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _truth(node.operand, values, condition)
    if isinstance(node, ast.Compare):
        return _comparison(node, values, condition)
    raise DataError(f"condition {condition!r} compares nothing; {_FORM}")


def _comparison(node: ast.Compare, values: dict[str, dict[str, Any]], condition: str) -> bool:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    measures = sorted(names - {"before", "after"})
    for name in measures:
        if name not in MEASURES:
            raise DataError(f"condition {condition!r}: {name} is no measure; measures are "
                            f"{', '.join(MEASURES)}, before and after")  # fmt: skip
    if not measures:
        raise DataError(f"condition {condition!r} names no measure; {_FORM}")
    if len(measures) > 1 and names & {"before", "after"}:
        raise DataError(
            f"condition {condition!r}: before and after are of one measure, and {measures[0]} and "
            f"{measures[1]} stand in one comparison; join two comparisons with 'and'"
        )
    of = values.get(measures[0], {})
    known = {name: values.get(name, {}).get("after") for name in measures}
    known |= {side: of.get(side) for side in names & {"before", "after"}}
    if missing := [name for name in known if known[name] is None]:
        raise DataError(f"condition {condition!r}: {missing[0]} has no value in these traces")
    sides = [_number(part, known, condition) for part in (node.left, *node.comparators)]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if type(op) not in _COMPARED:
            raise DataError(f"condition {condition!r}: only < <= > >= == != compare; {_FORM}")
        if not _COMPARED[type(op)](left, right):
            return False
    return True


def _number(node: ast.expr, known: dict[str, Any], condition: str) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return float(known[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number(node.operand, known, condition)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = (_number(one, known, condition) for one in (node.left, node.right))
        try:
            return float(_BINARY[type(node.op)](left, right))
        except (ZeroDivisionError, OverflowError):
            raise DataError(f"condition {condition!r} divides by 0") from None
    raise DataError(
        f"condition {condition!r}: only measures, numbers and + - * / are allowed; {_FORM}"
    )
