import pytest

from icml.kenv.apply import patched_files
from icml.kenv.models import KernelSource, PublicBug, Reproducer
from icml.kenv.policy import Policy
from icml.kenv.templates import candidates, diff_text

SOURCE = """\
static int share(int all, int parts)
{
\tint each = 0;

\teach += all;
\treturn each / parts;
}

int victim(struct sock *sk, int n)
{
\tint err = 0;

\tBUG_ON(sk->state ==
\t       n);
\terr = share(n, n - 1);
\treturn err;
}

static struct page *warned(int a)
{
\tif (WARN_ON(!a)) {
\t\treturn NULL;
\t}
\treturn get(a);
}

void quiet(void)
{
\tBUG_ON(jiffies);
}
"""


def bug(title: str, report: str) -> PublicBug:
    return PublicBug(
        id="x",
        title=title,
        crash_type="BUG",
        source=KernelSource(kind="tree", ref="x", version="1"),
        directory="net/x",
        crash_report=report,
        reproducers=[Reproducer(text="int main(void) {}")],
    )


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "net/x").mkdir(parents=True)
    (tmp_path / "net/x/sock.c").write_text(SOURCE)
    (tmp_path / "net/x/other.c").write_text("int other(int *p)\n{\n\treturn *p;\n}\n")
    return tmp_path


def added(tree, title: str, report: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for template, patch in candidates(bug(title, report), tree):
        Policy(scope=("net/x",)).check(patch)
        patched_files(tree, patch.changes)
        lines = [line.strip() for change in patch.changes for line in change.added_lines]
        found.setdefault(template, []).append(" ".join(lines).strip())
    return found


def test_an_assertion_is_deleted_softened_or_turned_into_an_error(tree) -> None:
    found = added(tree, "kernel BUG in victim", "kernel BUG at net/x/sock.c:13!\nRIP: x")
    assert found["T1"] == [""]
    # the call goes over two lines, of which the second stays as it is for T2
    assert found["T2"] == ["WARN_ON(sk->state =="]
    assert found["T3"] == ["if (sk->state == n) return -EINVAL;"]


def test_the_division_of_a_called_function_is_guarded(tree) -> None:
    found = added(tree, "divide error in victim", "divide error: 0000 [#1]")
    assert found["T4"] == ["if (!parts) return -EINVAL;"]


def test_the_first_pointer_is_guarded_before_the_first_statement(tree) -> None:
    found = added(tree, "divide error in victim", "divide error: 0000 [#1]")
    assert found["T5"] == ["if (!sk) return -EINVAL;"]


def test_a_warning_inside_of_a_condition_is_silenced(tree) -> None:
    report = "WARNING: CPU: 0 PID: 85 at net/x/sock.c:21 warned+0x1/0x2 [x]"
    assert added(tree, "WARNING in warned", report) == {"T1": ["if ((!a)) {"]}


def test_a_function_without_a_value_is_left_without_one(tree) -> None:
    found = added(tree, "kernel BUG in quiet", "kernel BUG at net/x/sock.c:29!")
    assert found["T3"] == ["if (jiffies) return;"]


def test_where_no_template_applies_there_is_no_candidate(tree) -> None:
    assert added(tree, "divide error in nowhere", "divide error: 0000 [#1]") == {}
    assert added(tree, "kernel panic: x", "Kernel panic - not syncing: x") == {}


def test_candidates_are_ordered_by_template_and_the_same_every_time(tree) -> None:
    found = bug("kernel BUG in victim", "kernel BUG at net/x/sock.c:13!")
    names = [candidate.template for candidate in candidates(found, tree)]
    assert names == sorted(names) == ["T1", "T2", "T3", "T4", "T5"]
    assert candidates(found, tree) == candidates(found, tree)


def test_equal_texts_have_an_empty_diff() -> None:
    assert diff_text("x.c", SOURCE, SOURCE) == ""
