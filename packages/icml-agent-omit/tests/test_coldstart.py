from dataclasses import dataclass
from functools import cache

import pytest
import torch

from icml.agent_omit.agents import Agent, play
from icml.agent_omit.coldstart import actions_kept, synthesise
from icml.agent_omit.format import parse_turn
from icml.agent_omit.necessity import FEWEST, LIMIT, analyse
from icml.agent_omit.rules import Random, omissions
from icml.agent_omit.sft import read_rows, write_rows
from icml.agent_omit.transcript import OmitTranscript
from icml.agent_omit.vault import COLOURS, Vault, needed, rooms_of
from icml.agent_omit.words import vault_words
from icml.core.errors import UserError
from icml.core.rl.rollout import EnvTask, Sample
from icml.core.stats import newcombe

WORDS = vault_words(Vault())
SEEDS = (0, 1)
VERDICTS = ("needed", "redundant", "not decided")


@dataclass
class KnowsVault:
    """An agent whose needs in the vault are known: it reads its
    prompt, and acts right if what that takes is in it; else it guesses.
    """

    lazy: float = 0.0
    """Chance of an empty thought that nobody asked for."""
    confused: bool = False
    """Whether a placeholder anywhere makes it go astray."""

    def sample(self, prompts, *, max_new_tokens, generators):
        return [
            self.answer(WORDS.decode(p).split(), g)
            for p, g in zip(prompts, generators, strict=True)
        ]

    def answer(self, words, generator):
        def draw(n):
            return int(torch.randint(n, (), generator=generator))

        forced = words[-1] == "</think>"
        idle = forced or float(torch.rand((), generator=generator)) < self.lazy
        now = [word for word in words if word.startswith("<tool_response_")][-1]
        seen = words[words.index(now) :]
        if "keypad" in seen:
            digits = [int(w) for w in seen[seen.index("keypad") + 1 :] if w.isdecimal()]
            thought = " ".join(str(sum(digits[: n + 1]) % 5) for n in range(len(digits)))
            action = f"press {draw(5) if idle else sum(digits) % 5}"
        elif "boxes" in seen:
            known = words[words.index("note") + 2] if "note" in words else COLOURS[draw(4)]
            thought, action = "see boxes", f"open {known}"
        else:
            way = seen[seen.index("exit") + 1]
            thought, action = f"see exit {way}", f"go {way}"
        if self.confused and any(word.startswith("<omitted") for word in words):
            action = "go north"
        text = f"<tool_call> {action} </tool_call>"
        if not forced:
            text = f"<think> {'' if idle else thought} </think> {text}"
        ids = WORDS.encode(text)
        return Sample(ids, torch.zeros(len(ids)), torch.zeros(len(ids)), text)


def agent(**options):
    transcript = OmitTranscript(WORDS.encode, WORDS.decode, tell_task=False)
    return Agent(KnowsVault(**options), transcript, max_turns=5, max_new_tokens=20)


def analysed(seeds, **options):
    tasks = [EnvTask(seed) for seed in seeds]
    return analyse(agent(**options), lambda task: Vault(), tasks, rollouts=FEWEST, seed=1)


def test_what_an_agent_needs_is_found_and_everything_else_is_redundant():
    # It presses at random without a thought: of 52 a fifth is right. Nothing else is left to chance
    # but the box, one of four without the note.
    for task in analysed([0, 1, 2]).tasks:
        truth = needed(rooms_of(task.task.seed))
        found = {v: {(e.kind, e.turn) for e in task.elements if e.verdict == v} for v in VERDICTS}
        thoughts = {("thought", turn) for turn in range(1, 6)}
        seen = {("observation", number) for number in range(1, 5)}
        wanted = {("thought", turn) for turn in truth.thoughts} | {("observation", 1)}
        assert found["needed"] == wanted
        assert found["redundant"] == (thoughts | seen) - wanted
        assert task.success == 1


def test_the_in_distribution_score_is_the_share_that_the_agent_leaves_out_by_itself():
    (task,) = analysed([0], lazy=0.3).tasks
    first = task.elements[0]
    # 52 coins of .3: standard error .064, four of them are missed once in 16,000 seeds.
    assert (first.kind, first.turn) == ("thought", 1)
    assert first.in_distribution == pytest.approx(0.3, abs=0.26)
    assert first.in_distribution > 0
    assert all(e.in_distribution == 0 for e in task.elements if e.kind == "observation")


def test_an_agent_that_mostly_fails_is_told_nothing_redundant():
    (task,) = analysed([0], lazy=1.0).tasks
    assert task.success < 0.5
    assert task.redundant() == []


def test_an_agent_lost_in_any_edited_history_seems_to_need_every_observation():
    report = analysed([0], confused=True)
    assert {e.verdict for e in report.tasks[0].elements if e.kind == "observation"} == {"needed"}
    assert "'needed' may mean only that" in list(report.lines())[-1]


def test_fewer_roll_outs_than_could_ever_show_redundancy_are_refused():
    assert newcombe(FEWEST, FEWEST, FEWEST, FEWEST, level=0.9).high < LIMIT
    assert newcombe(FEWEST - 1, FEWEST - 1, FEWEST - 1, FEWEST - 1, level=0.9).high >= LIMIT
    with pytest.raises(UserError, match="51 roll-outs can't show"):
        analyse(agent(), lambda task: Vault(), [EnvTask(0)], rollouts=51)


def test_the_report_names_every_element_with_its_verdict():
    lines = list(analysed([0]).lines())
    assert lines[0] == "task 0: success 1.00 of 52 roll-outs"
    assert sum(line.startswith(("thought", "observation")) for line in lines) == 9
    assert lines[-2] == "7 redundant, 2 needed, 0 not decided"


def make(_):
    return Vault()


@cache
def cold_start():
    report = analyse(agent(), make, [EnvTask(seed) for seed in SEEDS], rollouts=FEWEST)
    return synthesise(report, agent(), make)


def test_the_three_kinds_are_equal_thirds_and_what_is_cut_is_counted():
    found = cold_start()
    assert [example.kind for example in found.examples] == [
        kind for kind in ("one thought", "one observation", "several") for _ in SEEDS
    ]
    # Of each task four thoughts and three observations are redundant: 2 of 8 and 2 of 6 are kept.
    assert sorted(found.rejected.values()) == [4, 6]
    assert next(found.lines()) == "6 examples: 2 one thought, 2 one observation, 2 several"


def test_several_leaves_out_all_that_is_redundant_and_nothing_that_is_needed():
    for example in cold_start().examples[-2:]:
        truth = needed(rooms_of(example.task))
        assert example.left_out.thoughts == {1, 2, 3, 4, 5} - truth.thoughts
        assert example.left_out.gone == {2: 3, 3: 4, 4: 5}


def test_what_is_left_out_is_said_in_the_format_and_takes_effect():
    for example in cold_start().examples:
        outputs = [parse_turn(WORDS.decode(s.response_ids)) for s in example.episode.steps]
        assert all(output.errors == () for output in outputs)
        said = {number: turn + 1 for turn, o in enumerate(outputs, 1) for number in o.omit}
        assert said == {k: turn for k, turn in example.left_out.gone.items() if turn <= 5}
        empty = {turn for turn, output in enumerate(outputs, 1) if output.thought_omitted}
        assert empty == example.left_out.thoughts
        for number, turn in said.items():
            prompts = [WORDS.decode(step.prompt_ids) for step in example.episode.steps]
            shown = [f"<omitted_tool_response_{number}>" in prompt for prompt in prompts]
            assert shown == [t >= turn for t in range(1, 6)]


def test_each_example_plays_to_success_when_its_actions_are_taken():
    for example in cold_start().examples:
        env = Vault()
        env.reset(example.task)
        *_, last = (env.step(step.action) for step in example.episode.steps)
        assert last.info["success"]


def test_the_rows_train_and_survive_a_file(tmp_path):
    rows = cold_start().rows()
    write_rows(tmp_path / "data.jsonl", rows)
    assert read_rows(tmp_path / "data.jsonl") == rows
    outputs = [step for e in cold_start().examples for step in e.episode.steps]
    learnt = sum(sum(row["completion_mask"]) for row in rows)
    assert learnt == sum(len(step.response_ids) for step in outputs)


def test_the_judge_sees_that_an_agent_acts_otherwise_in_the_edited_history():
    edited = cold_start().examples[-1].episode
    assert actions_kept(agent(), edited, draws=4, seed=0) == 1
    assert actions_kept(agent(confused=True), edited, draws=4, seed=0) == 0


def test_an_agent_that_goes_astray_when_its_history_is_edited_gives_no_data_about_observations():
    sure = agent(confused=True)
    report = analyse(sure, make, [EnvTask(0)], rollouts=FEWEST)
    found = synthesise(report, sure, make)
    assert found.examples == ()
    assert found.rejected["more examples of one thought than of the rarest kind"] == 4


def test_nothing_redundant_is_said():
    report = analyse(agent(lazy=1.0), make, [EnvTask(0)], rollouts=FEWEST)
    found = synthesise(report, agent(lazy=1.0), make)
    assert found.rejected == {"nothing in the task was shown to be redundant": 1}


@pytest.mark.parametrize("kind", [0, 2, 4])
def test_the_judges_share_is_recorded(kind):
    assert cold_start().examples[kind].kept == 1


def test_a_rule_that_draws_draws_for_each_episode_anew_and_as_a_log_is_counted():
    played = play(agent(), make, [EnvTask(3)], rule=Random(0.5), group_size=12, seed=0)
    drawn = []
    for number, episode in enumerate(played):
        outputs = [parse_turn(WORDS.decode(step.response_ids)) for step in episode.steps]
        empty = {turn for turn, output in enumerate(outputs, 1) if output.thought_omitted}
        rule = omissions(Random(0.5), len(outputs), episode=number)
        assert empty == rule.thoughts
        for turn, step in enumerate(episode.steps, 1):
            prompt = WORDS.decode(step.prompt_ids)
            shown = {k for k in range(1, turn) if f"<omitted_tool_response_{k}>" in prompt}
            assert shown == {k for k, gone in rule.gone.items() if gone <= turn}
        drawn.append(tuple(sorted(empty)))
    assert len(set(drawn)) > 1
