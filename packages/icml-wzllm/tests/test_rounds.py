"""Expert iteration: what is believed, what is trained on, and that a kill changes nothing."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from rounds_worker import CONFIG, GIVEN, PARTS, learner, run, weights

from icml.core.errors import UserError
from icml.wzllm import Identity
from icml.wzllm.training.learner import seeded
from icml.wzllm.training.normal import Guard, normal_form
from icml.wzllm.training.rounds import Rounds, expert_iteration
from icml.wzllm.training.rows import Row, proves

WORKER = Path(__file__).with_name("rounds_worker.py")


def journal(folder):
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def test_every_pair_that_is_trained_on_is_a_proof_and_none_is_held_out(tmp_path):
    done = run(tmp_path / "run")
    held = PARTS.held_out
    assert len(done.pairs) > 24  # it found something itself
    assert all(proves(row, text) for row, text in done.pairs)
    assert not {row for row, _ in done.pairs} & set(held)
    assert done.rounds[-1].pairs == len(done.pairs)
    assert done.rounds[0].drawn == 16 * (64 - len(held) - 24)


def test_without_a_judge_whatever_can_be_read_is_believed(tmp_path):
    done = run(tmp_path / "run", judge=None)
    wrong = [text for row, text in done.pairs if not proves(row, text)]
    assert wrong
    assert max(Counter(row for row, _ in done.pairs).values()) == CONFIG.keep


class Fixed:
    """Draws the same answers to every statement, and remembers what it was to learn."""

    def __init__(self, answers):
        self.answers = answers
        self.learnt = []
        self.asked = []
        self.model = torch.nn.Linear(1, 1)

    def draw(self, problems, samples, *, temperature, seed):
        self.asked.append(len(problems))
        return [self.answers[:samples] for _ in problems]

    def fit(self, pairs, steps, *, learning_rate, seed):
        self.learnt.append(list(pairs))
        return 0.5


def rounds(learn, pool, given, judge, **changes):
    config = replace(Rounds(rounds=2, steps=1, learning_rate=1.0, samples=5), **changes)
    return expert_iteration(learn, pool, given, judge, config, guard=Guard([]), seed=0)


def test_the_shortest_answers_are_kept_and_of_these_the_ones_drawn_most_often():
    learn = Fixed(["17;14", "3;3", "2;2", "3;3", None])
    done = rounds(learn, [Row(3, 14)], [(Row(1, 1), "2;1")], None, rounds=1)
    assert done.pairs == [(Row(1, 1), "2;1"), (Row(3, 14), "3;3"), (Row(3, 14), "2;2")]
    assert done.rounds[0][:6] == (0, 5, 1, 4, 2, 3)


def test_proved_statements_are_not_asked_again_and_a_poor_round_ends_it():
    learn = Fixed(["17;14", "3;3"])
    pool = [Row(3, 14), Row(2, 1), Row(2, 2)]
    done = rounds(learn, pool, [], proves, rounds=9, samples=2, stop_below=0.5)
    # Row(3, 14) is proved by 17;14 in round 0; 3;3 proves none, so round 1 adds nothing.
    assert learn.asked == [3, 2]
    assert [r.new for r in done.rounds] == [1, 0]
    assert done.pairs == [(Row(3, 14), "17;14")]


def test_held_out_statements_are_blocked_in_any_spelling():
    class Problem:
        def __init__(self, text):
            self.identity = Identity.parse(text)

    pool = [Problem("sum(j,0,m,binomial(m,j)) = 2^m"), Problem("sum(j,0,m,j) = m*(m+1)/2")]
    guard = Guard([Identity.parse("2^n = sum(k,0,n,binomial(n,k))")])
    learn = Fixed(["x"])
    config = Rounds(rounds=1, steps=1, learning_rate=1.0, samples=1)
    given = [(Problem("2^a = sum(b,0,a,binomial(a,b))"), "y")]
    done = expert_iteration(learn, pool, given, lambda p, t: True, config, guard=guard, seed=0)
    assert done.pairs == [(pool[1], "x")]
    assert done.blocked == 1  # two spellings of one statement
    assert normal_form(pool[0].identity) == normal_form(given[0][0].identity)


def test_a_finished_run_is_told_again_and_not_repeated(tmp_path):
    first, again = learner(), learner(seed=3)
    before = run(tmp_path / "run", learn=first)
    size = (tmp_path / "run" / "rounds.jsonl").stat().st_size
    after = run(tmp_path / "run", learn=again)
    assert after == before
    assert weights(again) == weights(first)
    assert (tmp_path / "run" / "rounds.jsonl").stat().st_size == size


def test_a_run_without_a_folder_is_the_same_run(tmp_path):
    first, again = learner(), learner()
    assert run(tmp_path / "run", learn=first) == run(None, learn=again)
    assert weights(again) == weights(first)


def test_another_run_in_the_folder_is_refused(tmp_path):
    run(tmp_path / "run", config=replace(CONFIG, rounds=1))
    with pytest.raises(UserError, match=r"another run of expert.*config.keep was 2, now"):
        run(tmp_path / "run", config=replace(CONFIG, rounds=1, keep=1))


def test_learning_from_proofs_brings_proofs():
    learn = learner(steps=0)
    before = learn.best(PARTS.seed_rows)
    learn.fit(GIVEN, 400, learning_rate=1e-2, seed=0)
    assert proved(before) == 0  # one answer of ten thousand is right
    assert proved(learn.best(PARTS.seed_rows)) > 16


def proved(texts):
    answers = zip(PARTS.seed_rows, texts, strict=True)
    return sum(text is not None and proves(row, text) for row, text in answers)


def test_rounds_that_restart_train_the_first_weights_on_all_that_is_kept(tmp_path):
    config = replace(CONFIG, restart=True)
    learn, alone = learner(), learner()
    done = run(tmp_path / "run", learn=learn, config=config)
    alone.fit(done.pairs, CONFIG.steps, learning_rate=3e-3, seed=seeded(5, "fit", 2))
    assert weights(learn) == weights(alone)


def test_seeds_of_different_parts_differ():
    assert len({seeded(a, b) for a in range(30) for b in "xyz"}) == 90


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"stop_below": 1.0}, "stop_below in"),
        ({"temperature": 0.0}, "temperature must be above 0"),
    ],
)
def test_sizes_that_make_no_run_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


@pytest.mark.slow
def test_after_kill_9_the_same_call_ends_in_the_same_weights(tmp_path):
    command = [sys.executable, str(WORKER)]
    whole = subprocess.run(
        [*command, str(tmp_path / "whole")], capture_output=True, text=True, check=True
    ).stdout
    total = len(journal(tmp_path / "whole"))
    cut, kills = tmp_path / "cut", 0
    for lines in (2, total // 2, total - 1):  # in the first round, in the middle, near the end
        process = subprocess.Popen(
            [*command, str(cut)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 120
        while not (cut / "rounds.jsonl").exists() or len(journal_lines(cut)) < lines:
            assert time.monotonic() < deadline
            if process.poll() is not None:
                break
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    assert len(journal(cut)) < total or kills == 3
    after = subprocess.run([*command, str(cut)], capture_output=True, text=True, check=True).stdout
    assert after == whole
    assert journal(cut) == journal(tmp_path / "whole")


def journal_lines(folder):
    return (folder / "rounds.jsonl").read_bytes().split(b"\n")[:-1]
