"""Patches that five templates make at the place of a crash, without a model and without a run.

They are what a hurried programmer tries: delete the assertion (T1), make it a warning (T2), return
an error in its place (T3), leave before a division by zero (T4), leave on a NULL pointer (T5).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from icml.kenv.ctext import Function, functions, parse_c
from icml.kenv.models import Patch, PublicBug

_PLACE = re.compile(
    r"(?:BUG at|PID: [0-9]+ at|failure at|WARNING:) ([\w./-]+\.[ch]):([0-9]+)", re.ASCII
)
_FUNCTION = re.compile(r" in ([A-Za-z_]\w*)$", re.ASCII)
_ASSERTIONS = re.compile(r"BUG|BUG_ON|(?:VM_|NET_)?(?:BUG|WARN)(?:_ON)?(?:_ONCE)?", re.ASCII)


class Candidate(NamedTuple):
    """One patch that a template makes."""

    template: str
    """``T1`` to ``T5``."""
    patch: Patch


class _Edit(NamedTuple):
    template: str
    start: int
    end: int
    text: str


def candidates(bug: PublicBug, tree: Path) -> list[Candidate]:
    """Return the templates' patches in their order, T1 first; none where none applies.

    Args:
        bug: Its crash report says where.
        tree: The unpatched source, of which only the bug's directory is read.
    """
    found: dict[str, Candidate] = {}
    for path in _files(bug, tree):
        code = (tree / path).read_bytes()
        for edit in _edits(bug, code):
            changed = code[: edit.start] + edit.text.encode() + code[edit.end :]
            diff = diff_text(path, code.decode(errors="replace"), changed.decode(errors="replace"))
            found.setdefault(diff, Candidate(edit.template, Patch(diff=diff)))
    return sorted(found.values(), key=lambda candidate: candidate.template)


def diff_text(path: str, old: str, new: str) -> str:
    """Return a unified diff of one file, empty for equal texts."""
    parts = []
    a, b = old.splitlines(keepends=True), new.splitlines(keepends=True)
    for line in difflib.unified_diff(a, b, f"a/{path}", f"b/{path}"):
        parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _place(bug: PublicBug) -> tuple[str | None, int | None, str | None]:
    """Return file, line and function of a crash, each as far as its report tells."""
    place = _PLACE.search(bug.crash_report[:20_000])
    function = _FUNCTION.search(bug.title)
    name = Path(place[1]).name if place else None
    return name, int(place[2]) if place else None, function[1] if function else None


def _files(bug: PublicBug, tree: Path) -> Iterator[str]:
    name, _, function = _place(bug)
    for path in sorted((tree / bug.directory).glob("*.c")):
        code = path.read_text(errors="replace")
        if path.name == name or (
            name is None and any(each.name == function for each in functions(code))
        ):
            yield str(path.relative_to(tree))


def _edits(bug: PublicBug, code: bytes) -> Iterator[_Edit]:
    _, line, function = _place(bug)
    text = code.decode(errors="replace")
    for place in functions(text):
        inside = place.first <= line <= place.last if line else place.name == function
        if inside:
            root = parse_c(code)
            yield from _assertions(root, place, line)
            yield from _divisions(root, place)
            yield from _null_guards(root, place)


def _walk(node: Any) -> Iterator[Any]:
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(node.children)


def _text(node: Any) -> str:
    return node.text.decode(errors="replace")


def _definition(root: Any, place: Function) -> Any:
    return next(
        node
        for node in _walk(root)
        if node.type == "function_definition" and node.start_point[0] + 1 == place.first
    )


def _leave(definition: Any) -> str:
    """Return the statement that leaves a function with an error, by what it returns."""
    head = _text(definition).split("(")[0]
    if "*" in head:
        return "return NULL;"
    return "return;" if re.search(r"\bvoid\b", head) else "return -EINVAL;"


def _assertions(root: Any, place: Function, line: int | None) -> Iterator[_Edit]:
    definition = _definition(root, place)
    for call in _walk(definition):
        if call.type != "call_expression" or line is None:
            continue
        name = _text(call.child_by_field_name("function"))
        lines = range(call.start_point[0] + 1, call.end_point[0] + 2)
        if line not in lines or _ASSERTIONS.fullmatch(name) is None:
            continue
        arguments = call.child_by_field_name("arguments").named_children
        condition = _text(arguments[0]) if arguments else "1"
        statement = call.parent
        alone = statement.type == "expression_statement"
        if alone:
            yield _Edit("T1", statement.start_byte, statement.end_byte, "")
            text = f"if ({condition})\n\t\t{_leave(definition)}"
            yield _Edit("T3", statement.start_byte, statement.end_byte, text)
        else:
            yield _Edit("T1", call.start_byte, call.end_byte, f"({condition})")
        if "BUG" in name:
            yield _Edit("T2", call.start_byte, call.end_byte, f"WARN_ON({condition})")


def _divisions(root: Any, place: Function) -> Iterator[_Edit]:
    """Guard divisions in the function, and in those of its file that it calls by name."""
    definition = _definition(root, place)
    called = {
        _text(node.child_by_field_name("function"))
        for node in _walk(definition)
        if node.type == "call_expression"
    }
    for other in functions(root.text.decode(errors="replace")):
        if other != place and other.name not in called:
            continue
        home = _definition(root, other)
        for node in _walk(home):
            if node.type != "binary_expression":
                continue
            divisor = node.child_by_field_name("right")
            if node.child_by_field_name("operator").type in "/%" and divisor.type == "identifier":
                statement = _statement(node)
                if statement is not None:
                    guard = f"if (!{_text(divisor)})\n\t\t{_leave(home)}\n\t"
                    yield _Edit("T4", statement.start_byte, statement.start_byte, guard)


def _statement(node: Any) -> Any:
    """Return the statement of a block that holds an expression, None for a declaration's."""
    while node is not None and (node.parent is None or node.parent.type != "compound_statement"):
        node = node.parent
    return None if node is None or node.type == "declaration" else node


def _null_guards(root: Any, place: Function) -> Iterator[_Edit]:
    """Guard the first pointer that the function is given, before its first statement."""
    definition = _definition(root, place)
    pointers = (n for n in _walk(definition) if n.type == "parameter_declaration")
    for parameter in pointers:
        declarator = parameter.child_by_field_name("declarator")
        if declarator is None or declarator.type != "pointer_declarator":
            continue
        names = [n for n in _walk(declarator) if n.type == "identifier"]
        body = definition.child_by_field_name("body")
        first = next((n for n in body.named_children if not _declares(n)), None)
        if len(names) == 1 and first is not None:
            guard = f"if (!{_text(names[0])})\n\t\t{_leave(definition)}\n\t"
            yield _Edit("T5", first.start_byte, first.start_byte, guard)
        return


def _declares(node: Any) -> bool:
    return node.type in ("declaration", "comment") or node.type.startswith("preproc")
