"""The utility task: which problems it takes."""

import sys
from pathlib import Path

import pytest

from icml.core.chat import Rule, scripted
from icml.core.errors import UserError

pytest.importorskip("inspect_ai")
sys.path.insert(0, str(Path(__file__).parent))

from brokenmath_asking import item

from icml.brokenmath.tasks import brokenmath_task, utility_task


def test_a_problem_whose_final_answer_nobody_knows_is_refused_and_not_counted_as_wrong():
    judge = scripted([Rule("never asked")], name="judge")
    known = item(1, question_type="answer")
    bare = [item(n, question_type="answer", answer=answer) for n, answer in ((2, None), (3, " "))]
    with pytest.raises(UserError, match=r"2 of 4 items ask for a final answer .* is item-2: add"):
        utility_task([known, *bare, item(4, answer=None)], judge=judge)
    assert len(utility_task([known, item(4, answer=None)], judge=judge).dataset) == 2
    assert len(brokenmath_task(bare, judge=judge).dataset) == 2  # there a judge reads the solution
