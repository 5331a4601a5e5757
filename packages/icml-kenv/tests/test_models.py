import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from icml.kenv.models import (
    VERDICT_KINDS,
    Baseline,
    Bug,
    BuildResult,
    CompileError,
    CrashReport,
    Equivalence,
    FixSource,
    Frame,
    Image,
    KernelSource,
    Patch,
    PublicBug,
    Reproducer,
    RunResult,
    Scores,
    Verdict,
)

SECRET = "the-developers-secret"


def bug(**more) -> Bug:
    source = KernelSource(kind="deb", ref="linux-source-6.1", version="6.1.170-3")
    fields = {
        "id": "phonet-autobind",
        "title": "kernel BUG in pn_socket_autobind",
        "crash_type": "BUG",
        "source": source,
        "directory": "net/phonet",
        "crash_report": "kernel BUG at net/phonet/socket.c:213!",
        "reproducers": [Reproducer(text="int main(void) { return 0; }")],
    }
    return Bug.model_validate(fields | more)


def hidden() -> dict:
    later = KernelSource(kind="deb", ref=SECRET, version=SECRET)
    return {
        "fix": Patch(diff=SECRET),
        "fix_source": FixSource(source=later, hunks={f"net/{SECRET}.c": [1]}),
        "bug_patch": Patch(diff=SECRET),
        "bug_source": FixSource(source=later, hunks={f"net/{SECRET}.c": [1]}),
        "fix_commits": [SECRET],
        "fix_time": datetime(2031, 7, 9, tzinfo=UTC),
        "baselines": [Baseline(backend="uml", runs=15, crashes=15, fixed_transcript=[SECRET])],
    }


def test_the_public_view_holds_nothing_of_the_fix() -> None:
    whole = bug(**hidden())
    assert set(hidden()) == set(Bug.model_fields) - set(PublicBug.model_fields)

    public = whole.public().model_dump_json()

    assert SECRET in whole.model_dump_json()
    assert SECRET not in public
    assert "2031" not in public
    assert type(whole.public()) is PublicBug


def test_a_bug_survives_its_own_json() -> None:
    whole = bug(**hidden())
    assert Bug.model_validate_json(whole.model_dump_json()) == whole


@pytest.mark.parametrize("directory", ["/etc", "../linux", "net/../../x", "net\\phonet", ""])
def test_a_bug_cannot_point_out_of_the_tree(directory) -> None:
    with pytest.raises(ValidationError, match="inside the kernel tree"):
        bug(directory=directory)


@pytest.mark.parametrize("name", ["../x", "A", "", "a/b", "-x"])
def test_a_bug_id_is_safe_as_a_file_name(name) -> None:
    with pytest.raises(ValidationError, match="id"):
        bug(id=name)


def test_a_record_refuses_keys_that_it_does_not_know() -> None:
    with pytest.raises(ValidationError, match="fixx"):
        bug(fixx=None)


@pytest.mark.parametrize("booted", [False, True])
@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("infra", [None, "qemu did not start"])
def test_a_run_is_valid_when_it_booted_and_then_crashed_or_ended(
    booted, finished, crashed, infra
) -> None:
    crash = CrashReport(title="x", kind="BUG", raw="", start=0, end=0) if crashed else None
    run = RunResult(booted=booted, finished=finished, crash=crash, seconds=1, infra=infra)
    assert run.valid == (infra is None and booted and (finished or crashed))


@pytest.mark.parametrize("kind", VERDICT_KINDS)
def test_only_the_kind_plausible_is_plausible(kind) -> None:
    verdict = Verdict(kind=kind, backend="replay")
    assert verdict.plausible == (kind == "plausible")
    assert json.loads(verdict.model_dump_json())["plausible"] == (kind == "plausible")


def test_kinds_are_in_the_order_of_the_stages() -> None:
    stages = ["patch_invalid", "apply_failed", "build_failed", "boot_failed", "crash_same", "flaky"]
    assert [kind for kind in VERDICT_KINDS if kind in stages] == stages


def test_trailing_blank_lines_do_not_make_another_patch() -> None:
    assert Patch(diff="--- a/x\n").sha256 == Patch(diff="--- a/x\n\n").sha256
    assert Patch(diff="--- a/x\n").sha256 != Patch(diff=" --- a/x\n").sha256
    assert Patch(diff=" \n").empty


def test_a_verdict_with_all_its_parts_survives_its_own_json() -> None:
    frame = Frame(func="f", offset=1, size=2, module="m")
    crash = CrashReport(title="t", kind="BUG", stacks={"call": [frame]}, raw="x", start=0, end=1)
    run = RunResult(booted=True, finished=True, crash=crash, seconds=1, console=Path("c.txt"))
    build = BuildResult(
        ok=True,
        seconds=2,
        image=Image(key="k", folder=Path("images/k")),
        objects=[Path("x.o")],
        errors=[CompileError(message="m", file="x.c", line=3)],
    )
    scores = Scores(file_iou=1, function_iou=None, token_jaccard=0.5, token_similarity=0.5)
    same = Equivalence(answer="unknown", evidence="structural", scores=scores, votes={"error": 5})
    verdict = Verdict(
        kind="crash_same", backend="uml", runs=[run], crash=crash, build=build, equivalence=same
    )

    text = verdict.model_dump_json()

    assert json.loads(text)["runs"][0]["valid"] is True
    assert Verdict.model_validate_json(text) == verdict
    assert Verdict.model_validate(verdict.model_dump()) == verdict
