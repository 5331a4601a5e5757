"""Does a patch do what the developers' fix does? Three answers: proved, refuted, unknown.

**Differs from the paper:** there, a language model's votes decide between two answers. Here a
difference in what the reproducer saw refutes, equal text or equal object code proves, and only
what is left open may go to a judge, whose word is marked as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from icml.core.votes import majority
from icml.kenv.apply import Patched, patched_files
from icml.kenv.ctext import structural_scores, tokens
from icml.kenv.models import Equivalence, EquivalenceAnswer, Patch
from icml.kenv.objects import same_code

Judge = Callable[[str, str, int], Sequence[EquivalenceAnswer | None]]
"""Asked with the agent's and the developers' diff for so many votes; None is an abstention."""

VOTES = 5
"""Of a judge (the authors' number)."""


@dataclass(frozen=True)
class Evidence:
    """What is known of the two patched kernels besides their text."""

    transcript: Sequence[str] | None = None
    """What the reproducer printed on the agent's kernel, None if it is not known."""
    fixed_transcript: Sequence[str] | None = None
    """The same on the kernel with the developers' fix."""
    objects: Mapping[str, bytes] = field(default_factory=dict)
    """Object files built with the agent's patch, by the path of their source in the tree."""
    fixed_objects: Mapping[str, bytes] = field(default_factory=dict)
    """The same with the developers' fix, compiled by the same command under the same paths."""


def identical_text(agent: Mapping[str, Patched], developer: Mapping[str, Patched]) -> bool:
    """Say whether two patches leave the same files, but for blanks, comments and line numbers.

    Equal tokens are equal code, except where code asks for its own spelling or place (``#x`` of
    an expression with other blanks, ``__LINE__``): kernels use both for messages only.
    """
    for path in agent.keys() | developer.keys():
        a, b = agent.get(path), developer.get(path)
        first = a.new if a else (b.old if b else None)
        second = b.new if b else (a.old if a else None)
        if first is None or second is None:
            if first != second:
                return False
        elif first != second and tokens(first) != tokens(second):
            return False
    return True


def identical_objects(evidence: Evidence, touched: Iterable[str]) -> bool:
    """Say whether both kernels have the same object code.

    Args:
        evidence: The object files.
        touched: Paths that either patch touches. Each needs its object file: where one has none,
            as a header has not, nothing is proved.
    """
    agent, fixed = evidence.objects, evidence.fixed_objects
    wanted = set(touched)
    if not wanted or agent.keys() != fixed.keys() or not wanted <= agent.keys():
        return False
    return all(same_code(agent[path], fixed[path]) for path in agent)


def transcript_witness(agent: Sequence[str], fixed: Sequence[str]) -> str | None:
    """Return the first line in which two transcripts differ, None for equal ones.

    Example:
        >>> transcript_witness(["send -> 0 errno=0"], ["send -> -1 errno=11"])
        "line 1: 'send -> 0 errno=0', with the developers' fix 'send -> -1 errno=11'"
    """
    for number, (line, wanted) in enumerate(zip_longest(agent, fixed), 1):
        if line != wanted:
            return f"line {number}: {_shown(line)}, with the developers' fix {_shown(wanted)}"
    return None


def _shown(line: str | None) -> str:
    return "nothing" if line is None else repr(line[:200])


def count_votes(votes: Iterable[EquivalenceAnswer | None]) -> dict[str, int]:
    """Count votes; what isn't an answer is an ``error``."""
    counted = Counter(v if v in ("equivalent", "discrepant") else "error" for v in votes)
    return dict(sorted(counted.items()))


def decided(votes: Sequence[EquivalenceAnswer | None]) -> EquivalenceAnswer:
    """Return what the votes say: a tie is ``discrepant``, none but abstentions is ``unknown``.

    Example:
        >>> decided(["equivalent", None, "equivalent", "discrepant"])
        'equivalent'
    """
    cast = [vote for vote in votes if vote in ("equivalent", "discrepant")]
    order: list[EquivalenceAnswer] = ["discrepant", "equivalent"]
    return majority(cast, tie_rule="worst", order=order) or "unknown"


def judged(found: Equivalence, votes: Sequence[EquivalenceAnswer | None]) -> Equivalence:
    """Return a comparison that proved nothing with the answer of votes, marked as theirs."""
    told = {"answer": decided(votes), "evidence": "judge", "votes": count_votes(votes)}
    return found.model_copy(update=told)


def compare_patches(
    agent: Patch,
    developer: Patch,
    tree: Path,
    *,
    evidence: Evidence | None = None,
    judge: Judge | None = None,
) -> Equivalence:
    """Compare a patch with the developers' fix of the same tree.

    In this order: the same text proves; another transcript refutes; the same object code proves;
    a judge says; else it is unknown. Equal transcripts say nothing.

    Args:
        agent: A patch that has passed the policy.
        developer: The fix.
        tree: The unpatched source.
        evidence: Transcripts and objects, where there are any.
        judge: Asked only where nothing else tells.

    Raises:
        PatchRejected: If one of them is no diff or doesn't fit the tree.
        NotAnObject: If an object file is none.
    """
    found, fixed = patched_files(tree, agent.changes), patched_files(tree, developer.changes)
    scores = structural_scores(found, fixed)
    if identical_text(found, fixed):
        return Equivalence(answer="equivalent", evidence="identical_text", scores=scores)
    known = evidence or Evidence()
    if known.transcript is not None and known.fixed_transcript is not None:
        witness = transcript_witness(known.transcript, known.fixed_transcript)
        if witness:
            return Equivalence(
                answer="discrepant", evidence="transcript", witness=witness, scores=scores
            )
    if identical_objects(known, found.keys() | fixed.keys()):
        return Equivalence(answer="equivalent", evidence="identical_object", scores=scores)
    unknown = Equivalence(answer="unknown", evidence="structural", scores=scores)
    if judge is None:
        return unknown
    return judged(unknown, judge(agent.diff, developer.diff, VOTES))
