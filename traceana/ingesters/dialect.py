"""The dialect of SQL of a mapping's expressions: that of Polars, with functions by their names."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp, generator, parser, tokens
from sqlglot.dialects.dialect import Dialect


class Rows(Dialect):
    """Expressions over one row; each function is read and written as it stands."""

    class Tokenizer(tokens.Tokenizer):
        """Adds Polars' whole-number division."""

        KEYWORDS: ClassVar[dict[str, Any]] = {
            **tokens.Tokenizer.KEYWORDS, "//": tokens.Tokenizer.KEYWORDS["DIV"],
        }  # fmt: skip

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
