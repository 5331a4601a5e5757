import json
import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.kenv.apply import Patched, apply_hunks
from icml.kenv.ctext import (
    changed_tokens,
    functions,
    iou,
    structural_scores,
    token_jaccard,
    token_similarity,
    tokens,
    touched_functions,
)
from icml.kenv.patch import parse_diff

SOURCE = """\
/* int comment(void) { } */
#include <x.h>
#define HELPER(x) do { (x)++; } while (0)

static int plain(int a)
{
\treturn a;
}

static const struct ops *const
*odd_layout(const struct a *x,
\t    int y)
{
\tif (y) {
\t\treturn 0;
\t}
\treturn &x->ops;
}

int prototype(int);
struct s { int (*member)(void); };

void __init last(void) { HELPER(global); }
"""


def test_functions_are_found_with_their_lines() -> None:
    assert [tuple(f) for f in functions(SOURCE)] == [
        ("plain", 5, 8),
        ("odd_layout", 10, 18),
        ("last", 23, 23),
    ]


@pytest.mark.skipif(shutil.which("ctags") is None, reason="the peer is universal-ctags")
def test_functions_agree_with_ctags(tmp_path) -> None:
    (tmp_path / "x.c").write_text(SOURCE.replace("__init ", ""))
    listed = subprocess.run(
        ["ctags", "--output-format=json", "--fields=+ne", "--kinds-C=f", "-f", "-", "x.c"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    peer = {(t["name"], t["end"]) for t in map(json.loads, listed.stdout.decode().splitlines())}
    assert {(f.name, f.last) for f in functions(SOURCE)} == peer


def patched(diff: str, old: str = SOURCE) -> dict[str, Patched]:
    (change,) = parse_diff(diff)
    return {change.paths[0]: apply_hunks(old, change.hunks)}


EDIT_PLAIN = "--- a/x.c\n+++ b/x.c\n@@ -7 +7 @@\n-\treturn a;\n+\treturn a + 1;\n"
ADD_CHECK = "--- a/x.c\n+++ b/x.c\n@@ -13,0 +14 @@\n+\tBUG_ON(!x);\n"


def test_a_function_is_touched_by_what_goes_and_by_what_comes() -> None:
    assert touched_functions(patched(EDIT_PLAIN)) == {"x.c::plain"}
    assert touched_functions(patched(ADD_CHECK)) == {"x.c::odd_layout"}
    outside = "--- a/x.c\n+++ b/x.c\n@@ -2 +2 @@\n-#include <x.h>\n+#include <y.h>\n"
    assert touched_functions(patched(outside)) == set()


def test_namesakes_in_two_files_are_two_functions() -> None:
    one, two = patched(EDIT_PLAIN), patched(EDIT_PLAIN.replace("x.c", "y.c"))
    assert iou(touched_functions(one), touched_functions(two)) == 0


def test_overlap_of_files_worked_out_by_hand() -> None:
    assert iou(["a.c", "b.c"], ["b.c", "c.c"]) == pytest.approx(1 / 3)
    assert iou([], []) is None
    assert iou(["a.c"], []) == 0


def test_the_same_patch_has_all_scores_one() -> None:
    scores = structural_scores(patched(EDIT_PLAIN), patched(EDIT_PLAIN))
    assert set(scores.model_dump().values()) == {1.0}


def test_changed_tokens_carry_their_sign() -> None:
    wanted = ["-return", "-a", "-;", "+return", "+a", "++", "+1", "+;"]
    assert changed_tokens(patched(EDIT_PLAIN)) == wanted


def test_token_scores_worked_out_by_hand() -> None:
    # multisets {a,a,b} and {a,b,b}: shared 2 of 4; edit distance 1 of 3
    assert token_jaccard(["a", "a", "b"], ["a", "b", "b"]) == 0.5
    assert token_similarity(["a", "a", "b"], ["a", "b", "b"]) == pytest.approx(2 / 3)
    assert token_similarity(list("kitten"), list("sitting")) == pytest.approx(1 - 3 / 7)
    assert token_jaccard([], []) is None
    assert token_similarity([], []) is None
    assert token_similarity([], ["a"]) == 0


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_token_scores_are_symmetric_and_one_only_for_equals(a, b) -> None:
    assert token_jaccard(a, b) == token_jaccard(b, a)
    assert token_similarity(a, b) == token_similarity(b, a)
    if a or b:
        assert (token_similarity(a, b) == 1) == (a == b)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a ;", "int  a\n;"),
        ("a/* x */b", "a b"),
        ("a // x\nb", "a\nb"),
        ("#define F(x) x\nb", "#  define F( x )  x // y\n\nb"),
        ("x = 1;", "x=1;"),
        ("lo\\\nng", "long"),
    ],
)
def test_blanks_and_comments_are_no_tokens(one, other) -> None:
    assert tokens(one) == tokens(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"a  b"', '"a b"'),
        ('"/* x */"', '""'),
        ("#define F (x)", "#define F(x)"),
        ("#define A b\nc", "#define A b c\n"),
        ("a - -b", "a -- b"),
        ("a b", "ab"),
        ("#ifdef A\nb\n#endif", "#ifdef A b\n#endif"),
        ("x = 'a';", "x = 'b';"),
        ("1.5e+3", "1.5e + 3"),
    ],
)
def test_what_changes_the_code_changes_the_tokens(one, other) -> None:
    assert tokens(one) != tokens(other)


@pytest.mark.parametrize("unit", ["/*", '"', "\\", "'", "#define ", "/", "1e+", "\n#", "*"])
def test_a_megabyte_of_traps_is_split_within_two_seconds(unit) -> None:
    start = time.process_time()
    tokens(unit * (1_000_000 // len(unit)))
    assert time.process_time() - start <= 4
