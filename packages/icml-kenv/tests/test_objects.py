"""Object code of real compilations; the compiler is the oracle."""

import shutil
import subprocess

import pytest

from icml.kenv.equivalence import Evidence, compare_patches, identical_objects
from icml.kenv.models import Patch
from icml.kenv.objects import NotAnObject, loaded_code, same_code

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

PLAIN = "int g(int);\nint f(int a) { if (a < 0) return -22; return g(a) + 1; }\n"


@pytest.fixture
def compiled(tmp_path):
    def build(code: str, *flags: str) -> bytes:
        (tmp_path / "x.c").write_text(code)
        command = ["gcc", "-O2", "-c", "x.c", "-o", "x.o", *flags]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        return (tmp_path / "x.o").read_bytes()

    return build


@pytest.mark.parametrize(
    "other",
    [
        f"/* why */\n\n{PLAIN}",
        PLAIN.replace("a", "argument"),
        PLAIN.replace("if (a < 0) return -22; return g(a) + 1;", "return a < 0 ? -22 : 1 + g(a);"),
        f"#define UNUSED 3\n{PLAIN}",
    ],
)
def test_sources_that_mean_the_same_to_the_compiler_are_the_same_code(compiled, other) -> None:
    assert same_code(compiled(PLAIN, "-g"), compiled(other, "-g"))


@pytest.mark.parametrize(
    "other",
    [
        PLAIN.replace("-22", "-11"),
        PLAIN.replace("g(", "h("),
        PLAIN.replace("+ 1", "+ 2"),
        PLAIN.replace("return -22; ", ";"),
        f"{PLAIN}int data = 1;\n",
        f"{PLAIN}int zero[4];\n",
    ],
)
def test_sources_that_differ_are_other_code(compiled, other) -> None:
    assert not same_code(compiled(PLAIN), compiled(other))


def test_a_string_and_a_size_are_part_of_the_code(compiled) -> None:
    text = 'const char *f(void) { return "one"; }\nstatic char z[4]; char *p(void) { return z; }\n'
    assert same_code(compiled(text), compiled(text))
    assert not same_code(compiled(text), compiled(text.replace("one", "two")))
    assert not same_code(compiled(text), compiled(text.replace("z[4]", "z[40]")))


def test_the_same_bytes_with_another_call_are_other_code(compiled) -> None:
    a, b = (compiled(f"void {name}(void); void f(void) {{ {name}(); }}\n") for name in ("g", "h"))
    assert loaded_code(a)[".text"][1] == loaded_code(b)[".text"][1]
    assert not same_code(a, b)


BUG = """
void f(int a) {{ if (a) asm volatile("1: ud2\\n.pushsection __bug_table,\\"aw\\"\\n"
 "2: .long 1b - .\\n.long 0\\n.word {line}\\n.word {flags}\\n.popsection"); }}
"""


def test_the_line_of_a_bug_is_no_part_of_the_code_and_its_flags_are(compiled) -> None:
    one = compiled(BUG.format(line=213, flags=1))
    assert same_code(one, compiled(BUG.format(line=219, flags=1)))
    assert not same_code(one, compiled(BUG.format(line=213, flags=2307)))


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF", b"\x7fELF" + b"\xff" * 200])
def test_what_is_no_object_file_is_refused(data) -> None:
    with pytest.raises(NotAnObject, match="not an object file"):
        loaded_code(data)


def test_a_cut_object_file_is_refused_or_read_but_never_equal(compiled) -> None:
    whole = compiled(PLAIN)
    for length in range(4, len(whole), 37):
        try:
            assert not same_code(whole, whole[:length])
        except NotAnObject:
            continue


def test_kernels_are_identical_only_when_every_object_is(compiled) -> None:
    a, b = compiled(PLAIN), compiled(PLAIN.replace("-22", "-11"))
    both = {"x.c": a, "y.c": b}
    assert identical_objects(Evidence(objects=both, fixed_objects=both), ["x.c"])
    assert not identical_objects(Evidence(objects=both, fixed_objects=both | {"y.c": a}), ["x.c"])
    assert not identical_objects(Evidence(objects={"x.c": a}, fixed_objects=both), ["x.c"])


def test_a_touched_file_without_an_object_leaves_it_open(compiled) -> None:
    one = {"x.c": compiled(PLAIN)}
    seen = Evidence(objects=one, fixed_objects=one)
    assert identical_objects(seen, ["x.c"])
    assert not identical_objects(seen, ["x.c", "x.h"])
    assert not identical_objects(seen, [])
    assert not identical_objects(Evidence(), ["x.c"])


def test_object_code_proves_what_text_does_not(compiled, tmp_path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "x.c").write_text(PLAIN)
    head = "--- a/x.c\n+++ b/x.c\n@@ -2 +2 @@\n-" + PLAIN.splitlines()[1] + "\n+"
    lines = (
        "int f(int a) { return a < 0 ? -11 : g(a) + 1; }",
        "int f(int b) { if (b < 0) return -11; return 1 + g(b); }",
    )
    agent, fix = (Patch(diff=f"{head}{line}\n") for line in lines)
    built = [compiled("int g(int);\n" + line) for line in lines]
    seen = Evidence(objects={"x.c": built[0]}, fixed_objects={"x.c": built[1]})

    assert compare_patches(agent, fix, tree).answer == "unknown"
    found = compare_patches(agent, fix, tree, evidence=seen)
    assert (found.answer, found.evidence) == ("equivalent", "identical_object")
