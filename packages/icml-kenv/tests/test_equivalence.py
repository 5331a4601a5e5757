import pytest

from icml.kenv.equivalence import (
    Evidence,
    compare_patches,
    transcript_witness,
)
from icml.kenv.models import Patch
from icml.kenv.patch import PatchRejected

OLD = "int f(int a)\n{\n\tBUG_ON(a);\n\treturn 0;\n}\n"
HEAD = "--- a/net/x.c\n+++ b/net/x.c\n"
FIX = Patch(diff=f"{HEAD}@@ -3 +3,2 @@\n-\tBUG_ON(a);\n+\tif (a)\n+\t\treturn -22;\n")
SPACED = Patch(diff=f"{HEAD}@@ -3 +3 @@\n-\tBUG_ON(a);\n+\tif ( a ) return -22; /* bad */\n")
SILENT = Patch(diff=f"{HEAD}@@ -2,2 +2 @@\n {{\n-\tBUG_ON(a);\n")


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/x.c").write_text(OLD)
    return tmp_path


def test_another_layout_of_the_same_code_is_proved_equivalent(tree) -> None:
    found = compare_patches(SPACED, FIX, tree)
    assert (found.answer, found.evidence) == ("equivalent", "identical_text")


def test_another_behaviour_is_refuted_by_its_first_line(tree) -> None:
    seen = Evidence(
        transcript=["bind -> 0", "send -> 0"], fixed_transcript=["bind -> 0", "send -> -1"]
    )
    found = compare_patches(SILENT, FIX, tree, evidence=seen)
    assert (found.answer, found.evidence) == ("discrepant", "transcript")
    assert found.witness == "line 2: 'send -> 0', with the developers' fix 'send -> -1'"


def test_equal_behaviour_alone_says_nothing(tree) -> None:
    seen = Evidence(transcript=["send -> 0"], fixed_transcript=["send -> 0"])
    found = compare_patches(SILENT, FIX, tree, evidence=seen)
    assert (found.answer, found.evidence) == ("unknown", "structural")
    assert found.scores is not None
    assert found.scores.function_iou == 1
    assert found.scores.token_similarity is not None
    assert found.scores.token_similarity < 1


def test_a_patch_that_adds_a_file_is_not_the_same_text(tree) -> None:
    more = Patch(diff=f"{FIX.diff}--- /dev/null\n+++ b/net/y.c\n@@ -0,0 +1 @@\n+int y;\n")
    assert compare_patches(more, FIX, tree).answer == "unknown"
    assert compare_patches(FIX, more, tree).answer == "unknown"


def test_a_patch_that_also_edits_a_comment_elsewhere_is_the_same_text(tree) -> None:
    (tree / "net/z.c").write_text("/* old */\nint z;\n")
    more = Patch(
        diff=f"{FIX.diff}--- a/net/z.c\n+++ b/net/z.c\n@@ -1 +1 @@\n-/* old */\n+/* new */\n"
    )
    assert compare_patches(more, FIX, tree).evidence == "identical_text"


def test_a_patch_that_does_not_fit_is_an_error_and_no_answer(tree) -> None:
    with pytest.raises(PatchRejected, match="does not fit"):
        compare_patches(Patch(diff=FIX.diff.replace("-\tBUG_ON(a)", "-\tBUG_ON(b)")), FIX, tree)


@pytest.mark.parametrize(
    ("agent", "fixed", "witness"),
    [
        ([], [], None),
        (["a"], ["a"], None),
        (["a"], ["a", "b"], "line 2: nothing, with the developers' fix 'b'"),
        (["a", "b"], ["a"], "line 2: 'b', with the developers' fix nothing"),
    ],
)
def test_the_witness_is_the_first_different_line(agent, fixed, witness) -> None:
    assert transcript_witness(agent, fixed) == witness


YES, NO = "equivalent", "discrepant"


@pytest.mark.parametrize(
    ("votes", "answer", "counted"),
    [
        ([YES, YES, NO, None, NO], "discrepant", {YES: 2, NO: 2, "error": 1}),  # a tie
        ([YES, YES, YES, NO, NO], "equivalent", {YES: 3, NO: 2}),
        ([YES, None, None, None, None], "equivalent", {YES: 1, "error": 4}),
        ([None] * 5, "unknown", {"error": 5}),
        (["maybe", NO, "", YES, YES], "equivalent", {YES: 2, NO: 1, "error": 2}),
    ],
)
def test_a_judges_majority_decides_and_errors_abstain(tree, votes, answer, counted) -> None:
    asked = []

    def judge(agent: str, developer: str, number: int):
        asked.append((agent, developer, number))
        return votes

    found = compare_patches(SILENT, FIX, tree, judge=judge)
    assert (found.answer, found.evidence, found.votes) == (answer, "judge", counted)
    assert found.scores is not None
    assert asked == [(SILENT.diff, FIX.diff, 5)]


def test_a_judge_is_not_asked_where_there_is_proof(tree) -> None:
    def judge(agent: str, developer: str, number: int):
        raise AssertionError("asked")

    seen = Evidence(transcript=["a"], fixed_transcript=["b"])
    assert compare_patches(SPACED, FIX, tree, judge=judge).evidence == "identical_text"
    assert compare_patches(SILENT, FIX, tree, evidence=seen, judge=judge).votes == {}
