"""What a person reads uses standard terms and American spelling."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import traceana

ROOT = Path(__file__).parents[2]

THINGS = (
    "(?:archive|catalog|column|file|folder|frame|function|ledger|list|page|row|store|table|trace)s?"
)

PAGES = (
    "how-to/*.md",
    "tutorials/*.md",
    "explanation/[!e]*.md",
    "explanation/en*.md",
)
"""Pages that are checked, beside the package, README, CONTRIBUTING and the changelog."""

WORDS = {
    r"borne out|bears? out": "reproduced, supported",
    r"ask(?:s|ed|ing)? (?:for|of)": "request, need",
    r"(?<!groups, )(?<!users, )accounts(?!,)": "row counts, ledger",
    r"says|said|saying": "states, or the fact itself",
    r"tells|told|telling": "states, distinguishes, is called with",
    rf"{THINGS} knows?": "has",
    rf"{THINGS} holds?": "contains",
    rf"{THINGS} (?:gives?|comes?)": "has, states",
    r"stands? for|stood for": "is, means, represents",
    r"at hand": "available",
    r"of theirs|hardly|thereof|mended?": "rewrite",
    r"is judged|are judged|be judged|judges|judging": "checked, tested, assessed",
    r"things?|stuff": "jobs, tasks, rows, values",
    r"(?:a|an|the|its|their|this|equal|even|idle|small|large|largest|published) shares?"
    r"|shares? (?:of|above|below|in|that)": "fraction, percentage",
    r"(?:the|and|its|wide|little) spread": "standard deviation, interquartile range, range",
    r"competing ends|(?:its|their|published) own words?|status words?": "competing risks, values",
    r"no user is named|names no user": "has no user column",
    r"(?:a|the|published|other) reading of": "definition",
    r"by hash": "hash aggregation",
    r"recipes?": "mapping",
    r"wording": "formatting",
    r"a row an? |one an? (?:row|job|task|user|group|worker|step)": "one row per ...",
    r"populations? of (?:jobs|tasks|rows)": "cohort",
}
"""Words that have a standard term, each with that term."""

SPELLING = {
    r"licence\w*": "license",
    r"catalogue\w*": "catalog",
    r"(?:an?onym|optim|normal|standard|summar|recogn|minim|maxim|general|organ|real|parallel|util)"
    r"is(?:e|es|ed|ing|ation|er|ers)": "-ize",
    r"behaviour\w*|colour\w*|neighbour\w*|favour\w*|honour\w*": "-or",
    r"(?:cent|met|lit)res?|centred": "-er",
    r"modell(?:ed|ing)|label+led|labelling|signall\w+|travell\w+": "one l",
    r"grey\w*|analyse[dr]?|whilst|amongst|artefacts?|ageing": "American spelling",
}
"""British spellings."""

RULES = [
    (re.compile(rf"\b(?:{old})\b", re.IGNORECASE), new) for old, new in (WORDS | SPELLING).items()
]


ANY = re.compile(rf"\b(?:{'|'.join(WORDS | SPELLING)})\b", re.IGNORECASE)


def read_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments, docstrings and messages, each with its first line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            kept = re.sub(r"^ *(>>>|\.\.\. ).*$", "", node.value, flags=re.MULTILINE)
            yield node.lineno, kept


def read_text(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text without its blocks of code."""
    yield 1, re.sub(r"(?ms)^```.*?^```", lambda block: "\n" * block[0].count("\n"), text)


def written() -> list[Path]:
    """Return the files that people read."""
    code = [*ROOT.glob("traceana/**/*.py"), *ROOT.glob("docs/*.py")]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    data = [*ROOT.glob("traceana/**/*.toml"), *ROOT.glob("traceana/report/templates/*")]
    return sorted(path for path in (*code, *pages, *data) if "_build" not in path.parts)


def offences(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for first, piece in (read_python if path.suffix == ".py" else read_text)(text):
        prose = re.sub(r"``[^`]*``|`[^`\n]*`|\]\([^)]*\)|https?://\S+|:\w+:", "`", piece)
        flat = re.sub(r"\s", " ", prose)
        for pattern, better in RULES if ANY.search(flat) else ():
            for found in pattern.finditer(flat):
                line = first + prose.count("\n", 0, found.start())
                yield f"{path.relative_to(ROOT)}:{line}: {found[0]!r}: {better}"


def test_texts_use_standard_terms() -> None:
    found = [offence for path in written() for offence in offences(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", sorted(dir(traceana)))
def test_a_public_name_has_a_short_imperative_summary(name: str) -> None:
    value = getattr(traceana, name)
    if not callable(value) or not value.__doc__:
        pytest.skip("no function or class")
    summary = " ".join(value.__doc__.strip().split("\n\n")[0].split())
    assert len(summary.split()) <= 12, summary
    assert not re.match(r"(Returns|Says?|Tells?|Gives?|This)\b", summary), summary


def test_summary_lines_of_public_names_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    wrong = []
    for name, (_, value) in import_module("api").public_names().items():
        summary = " ".join((value.__doc__ or "").strip().split("\n\n")[0].split())
        if not re.fullmatch(r"[A-Z](?:[^.!?]|[.!?](?! [A-Z])){0,98}\.", summary):
            wrong.append(f"{name}: {summary}")
    assert not wrong, "\n".join(wrong)
