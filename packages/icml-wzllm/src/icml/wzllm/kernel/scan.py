"""What foreign Lean text may not contain, found before Lean sees it.

Lean's kernel is asked whether *some* text proves *our* statement, so the text must not be able to
add axioms, run programs, change the kernel's options, or change what our own lines mean. Only
theorems and definitions are left.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator

LONGEST = 1_000_000
"""Characters that a text may have; ours."""

FORBIDDEN = {
    "axioms by another name, and what the kernel doesn't check": """
        axiom axioms constant opaque sorry sorryAx admit stop unsafe partial native_decide
        implemented_by extern csimp export init_quot lcProof unsafeCast ofReduceBool reduceBool""",
    "programs that Lean would run while it reads, and new syntax": """
        import prelude module initialize simproc dsimproc unif_hint meta by_elab
        infix infixl infixr prefix postfix""",
    "options, and whatever changes the meaning of the lines behind the text": """
        set_option attribute instance class deriving scoped local variable variables include omit
        universe namespace section end mutual inductive coinductive structure public
        open_scoped suppress_compilation""",
}
"""Words that may not occur outside comments, by the reason."""

FORBIDDEN_STEMS = (
    "run_", "builtin_", "register_", "declare_", "macro", "syntax", "notation", "elab",
    "claim_", "recheck_",
)  # fmt: skip
"""Beginnings of words that may not occur; the last two are those of our own lines."""

_FORBIDDEN = frozenset(word for words in FORBIDDEN.values() for word in words.split())
_SYMBOLS = {
    "#": "a command that begins with #",
    "@[": "an attribute",
    '"': "a string",
    "`": "a quoted name or syntax",
    "«": "a quoted identifier",
    "»": "a quoted identifier",
}
_WORD = re.compile(r"[^\W\d]\w*")
_GLUED_PERCENT = re.compile(r"\w%")
_DECLARED = re.compile(r"\b(?:theorem|lemma|def|abbrev)\s+([^\s({\[:]+)")
_COMMENT = re.compile(r"--|/-|-/")


class Refused(ValueError):
    """The text holds something that is never accepted."""


def without_comments(text: str) -> str:
    """Return ``text`` with each comment replaced by spaces; line breaks stay.

    Lean is given the result, so what was taken for a comment here cannot be read by it.

    Raises:
        Refused: If a comment doesn't end, or ends without having begun.

    Example:
        >>> without_comments("theorem a /- axiom -/ : P -- import")
        'theorem a             : P          '
    """
    kept: list[str] = []
    at = 0
    while found := _COMMENT.search(text, at):
        if found[0] == "-/":
            raise Refused(f"line {_line(text, found.start())}: a comment ends that had not begun")
        kept.append(text[at : found.start()])
        at = _line_end(text, found.end()) if found[0] == "--" else _block_end(text, found.start())
        kept.append(re.sub(r"[^\n]", " ", text[found.start() : at]))
    return "".join(kept) + text[at:]


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _block_end(text: str, start: int) -> int:
    depth, at = 1, start + 2
    for found in re.compile(r"/-|-/").finditer(text, at):
        if found.start() < at:  # the two share a character, as in /-/
            continue
        at = found.end()
        depth += 1 if found[0] == "/-" else -1
        if depth == 0:
            return at
    raise Refused(f"line {_line(text, start)}: a comment doesn't end")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def scan(text: str, *, taken: Collection[str] = ()) -> str:
    """Return the text without its comments, fit to be given to Lean between our own lines.

    Args:
        text: Foreign Lean text.
        taken: Names that it may not declare: those of the base.

    Raises:
        Refused: If the text is too long or holds a word, symbol or character that is never
            accepted; the message says which, and where.
    """
    if len(text) > LONGEST:
        raise Refused(f"the text has {len(text)} characters, at most {LONGEST} are read")
    bare = without_comments(text)
    for at, complaint in _complaints(bare, taken):
        raise Refused(f"line {_line(bare, at)}: {complaint}")
    return bare


def _complaints(text: str, taken: Collection[str]) -> Iterator[tuple[int, str]]:
    for at, character in enumerate(text):
        if not _is_plain(character):
            yield at, f"the character U+{ord(character):04X} is not accepted"
    for symbol, name in _SYMBOLS.items():
        if (at := text.find(symbol)) >= 0:
            yield at, f"{name} is not accepted"
    if found := _GLUED_PERCENT.search(text):
        yield found.start(), "a term macro (%) is not accepted"
    for found in _WORD.finditer(text):
        word = unicodedata.normalize("NFKC", found[0])
        if word in _FORBIDDEN or word.startswith(FORBIDDEN_STEMS):
            yield found.start(), f"the word {word} is not accepted"
    for found in _DECLARED.finditer(text):
        if found[1] in taken or found[1].startswith("_root_"):
            yield found.start(1), f"the name {found[1]} belongs to the base"


def _is_plain(character: str) -> bool:
    """Letters, digits, marks of punctuation and symbols: nothing that hides or reorders text."""
    if character in " \n":
        return True
    return character.isprintable() and unicodedata.category(character)[0] in "LNPS"
