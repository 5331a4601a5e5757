"""What foreign Lean text may not hold, and what is done to slip it through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.wzllm.kernel.base import core_names, core_text
from icml.wzllm.kernel.scan import LONGEST, Refused, scan, without_comments


@pytest.mark.parametrize(
    "text",
    [
        "axiom cheat : P",
        "theorem a : P := x axiom cheat : Q",
        "theorem a : P := (x)axiom cheat : Q",
        "/- fine -/axiom cheat : P",
        "/- /- -/ -/ axiom cheat : P",
        "/-/ axiom inside -/ axiom cheat : P",
        "-- fine\naxiom cheat : P",
        "theorem a : P := sorry",
        "import Lean",
        "prelude",
        "unsafe def a := b",
        "@[implemented_by b] def a := c",
        "@[extern] def a := c",
        "def a := c attribute [extern] a",
        "#eval 1",
        "#print axioms a",
        "#exit",
        "run_cmd skip",
        "run_tac skip",
        "run_meta x",
        "initialize x",
        "builtin_initialize x",
        "macro x : term",
        "macro_rules | x => y",
        "syntax x : term",
        "elab x : term",
        "elab_rules : term",
        "notation a => b",
        "infixl:60 a => b",
        "set_option debug.skipKernelTC true",
        "set_option maxRecDepth 10 in theorem a : P := x",
        "init_quot",
        "instance : OfNat Nat 2 := x",
        "namespace Foo",
        "section",
        "variable (h : False)",
        "include h",
        "universe u",
        "opaque x : P",
        "theorem a : P := by native_decide",
        'def a := "axiom"',
        "def «axiom» := b",
        "def a := `axiom",
        "gen_injective_theorems% Nat",
        "theorem recheck_0 : P := x",
        "theorem claim_0 : P := x",
    ],
)
def test_forbidden_text_is_refused(text):
    with pytest.raises(Refused):
        scan(text)


@pytest.mark.parametrize(
    "sign", ["\u202e", "\u200b", "\ufeff", "\t", "\r", "\x00", "\u00a0", "\u2028"]
)
def test_characters_that_hide_or_reorder_text_are_refused(sign):
    with pytest.raises(Refused, match=f"U\\+{ord(sign):04X}"):
        scan(f"theorem a{sign} : P := x")


def test_full_width_letters_do_not_hide_a_word():
    with pytest.raises(Refused, match="the word axiom"):
        scan("\uff41\uff58\uff49\uff4f\uff4d cheat : P")


def test_refusal_names_the_line():
    with pytest.raises(Refused, match="line 3: the word import"):
        scan("theorem a : P := x\n/- a\nb -/ import Lean")


def test_comments_are_taken_out_and_lines_stay():
    text = "a -- axiom\n/- import /- open -/\n -/ b /-- doc -/ c"
    bare = without_comments(text)
    assert bare.split() == ["a", "b", "c"]
    assert len(bare) == len(text)
    assert [line for line in bare.splitlines() if "b" in line] == [bare.splitlines()[2]]


@pytest.mark.parametrize("text", ["a /- b", "a /- /- b -/", "a -/ b"])
def test_comments_that_swallow_what_follows_are_refused(text):
    with pytest.raises(Refused, match="comment"):
        without_comments(text)


@given(st.text(alphabet="ab-/\n ", max_size=40))
def test_no_comment_is_left_for_lean(text):
    try:
        bare = without_comments(text)
    except Refused:
        return
    assert "--" not in bare
    assert "/-" not in bare
    assert bare.count("\n") == text.count("\n")


@pytest.mark.parametrize("name", ["sumTo", "Eq", "Z", "ch", "_root_.Nat"])
def test_names_of_the_base_are_not_declared_anew(name):
    with pytest.raises(Refused, match="belongs to the base"):
        scan(f"noncomputable def {name} := x", taken=core_names())


def test_names_of_the_base_are_known():
    assert {
        "Eq",
        "Nat",
        "Nat.add",
        "sumTo",
        "zThin",
        "wzStep",
        "Ring0",
        "Whole",
        "Z",
    } <= core_names()


def test_plain_theorems_pass_unchanged():
    text = (
        "theorem a (n : Nat) : Eq n n :=\n  by exact (fun x => Eq.refl) n\nnoncomputable def b := a"
    )
    assert scan(text) == text


def test_text_without_end_is_refused():
    with pytest.raises(Refused, match="characters"):
        scan("a" * (LONGEST + 1))


def test_base_has_no_axioms_and_says_nothing_of_sorry():
    assert "axiom " not in without_comments(core_text())
    assert "sorry" not in without_comments(core_text())
