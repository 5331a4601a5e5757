"""C as tokens and functions: what two patches change, and how alike that is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from icml.kenv.apply import Patched
from icml.kenv.models import Scores

_TOKEN = re.compile(
    r"/\*(?:[^*]|\*(?!/))*+(?:\*/)?|//[^\n]*+"
    r"|(?P<directive>\n[ \t]*#[ \t]*(?:define[ \t]+\w+\(?)?)"
    r"|(?P<token>\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?"
    r"|[A-Za-z_$]\w*+|\.?[0-9](?:[eEpP][+-]|[\w.])*+"
    r"|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||##|[^\s\w])"
    r"|(?P<end>\n)"
)
_MOST_TOKENS = 1000  # of a patch, for the edit distance: its cost grows with their product
_SOURCES = (".c", ".h", ".S")


def tokens(code: str) -> list[str]:
    """Split C into tokens without comments and blanks; only directives keep their line ends.

    Example:
        >>> tokens("if (a  ->b) /* why */ return;")
        ['if', '(', 'a', '->', 'b', ')', 'return', ';']
    """
    found: list[str] = []
    in_directive = False
    for match in _TOKEN.finditer("\n" + code.replace("\\\n", "")):
        if directive := match["directive"]:
            if in_directive:
                found.append("\n")
            found.append(" ".join(directive.split()).replace("# ", "#"))
            in_directive = True
        elif match["token"]:
            found.append(match["token"])
        elif match["end"] and in_directive:
            found.append("\n")
            in_directive = False
    if in_directive:
        found.append("\n")
    return found


class Function(NamedTuple):
    """A function's name and the lines it covers, counted from 1."""

    name: str
    first: int
    last: int


def functions(code: str) -> list[Function]:
    """Find the functions that a C file defines, with their first and last lines."""
    found = []
    stack = [parse_c(code.encode(errors="surrogateescape"))]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            name = _declared_name(node)
            if name:
                found.append(Function(name, node.start_point[0] + 1, node.end_point[0] + 1))
        else:
            stack += reversed(node.children)
    return found


def parse_c(code: bytes) -> Any:
    """Parse C, broken or not, and return the root of its tree (a ``tree_sitter.Node``)."""
    return _parser().parse(code).root_node


@cache
def _parser() -> Any:
    import tree_sitter_c
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_c.language()))


def _declared_name(definition: Any) -> str:
    node = definition.child_by_field_name("declarator")
    while node is not None and node.type != "identifier":
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if "declarator" in c.type), None)
        node = inner
    return node.text.decode(errors="replace") if node is not None else ""


def touched_functions(files: Mapping[str, Patched]) -> set[str]:
    """Return ``path::function`` of every C function in which a line goes or comes.

    Removed lines count by the ranges of the old file, added ones by those of the new file.
    """
    found = set()
    for path, file in files.items():
        if not path.endswith((".c", ".h")):
            continue
        for code, lines in ((file.old, file.removed), (file.new, file.added)):
            if code is None or not lines:
                continue
            wanted = set(lines)
            for function in functions(code):
                if not wanted.isdisjoint(range(function.first, function.last + 1)):
                    found.add(f"{path}::{function.name}")
    return found


def iou(a: Iterable[Hashable], b: Iterable[Hashable]) -> float | None:
    """Return the shared part of two sets, None if both are empty (the authors' code: 0).

    Example:
        >>> iou(["a.c", "b.c"], ["b.c", "c.c"])
        0.3333333333333333
    """
    first, second = set(a), set(b)
    union = first | second
    return len(first & second) / len(union) if union else None


def changed_tokens(files: Mapping[str, Patched]) -> list[str]:
    """Return the tokens of all removed and added lines, each with its sign, file by file."""
    found = []
    for _, file in sorted(files.items()):
        for sign, code, numbers in (("-", file.old, file.removed), ("+", file.new, file.added)):
            lines = (code or "").split("\n")
            text = "\n".join(lines[n - 1] for n in numbers)
            found += [sign + token for token in tokens(text)]
    return found


def token_jaccard(a: Sequence[str], b: Sequence[str]) -> float | None:
    """Return the shared part of two multisets of tokens, None if both are empty."""
    first, second = Counter(a), Counter(b)
    union = (first | second).total()
    return (first & second).total() / union if union else None


def token_similarity(a: Sequence[str], b: Sequence[str]) -> float | None:
    """Return 1 - edit distance / longer length (Levenshtein 1966), of the first 1,000 tokens.

    None if both are empty.
    """
    first, second = a[:_MOST_TOKENS], b[:_MOST_TOKENS]
    if not first and not second:
        return None
    row = list(range(len(second) + 1))
    for i, token in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (token != other))
    return 1 - row[-1] / max(len(first), len(second))


def structural_scores(agent: Mapping[str, Patched], developer: Mapping[str, Patched]) -> Scores:
    """Score how alike two patches of one tree are; a score proves nothing."""
    a, b = changed_tokens(agent), changed_tokens(developer)
    return Scores(
        file_iou=iou(*([p for p in files if p.endswith(_SOURCES)] for files in (agent, developer))),
        function_iou=iou(touched_functions(agent), touched_functions(developer)),
        token_jaccard=token_jaccard(a, b),
        token_similarity=token_similarity(a, b),
    )
