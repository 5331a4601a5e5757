import random
from collections import Counter

import pytest

from icml.agent_omit.context import OmitContext
from icml.agent_omit.format import parse_turn
from icml.agent_omit.vault import Vault, expert_outputs, needed, rooms_of
from icml.agent_omit.words import BOS, Words, vault_words
from icml.core.testing.text_env import check_text_env


def test_it_keeps_the_rules_of_text_environments():
    check_text_env(Vault)


@pytest.mark.parametrize(("turns", "digits", "modulus"), [(5, 3, 5), (6, 5, 10), (3, 1, 2)])
def test_the_expert_opens_the_box_in_every_episode(turns, digits, modulus):
    env = Vault(turns=turns, digits=digits, modulus=modulus)
    for seed in range(50):
        env.reset(seed)
        results = [env.step(action) for action in env.expert_actions()]
        assert [result.reward for result in results] == [0.0] * (turns - 1) + [1.0]
        assert results[-1].info == {"success": True, "truncated": False, "steps": turns}


def test_rules_of_the_rooms_lead_to_the_box_by_what_is_seen_alone():
    """An agent written from the task's text: it never looks at the environment's own answers."""
    env = Vault(turns=6, digits=5, modulus=10)
    for seed in range(100):
        text, note, result = env.reset(seed).text, "", None
        for _ in range(env.max_steps):
            words = text.split()
            if "note" in words:
                note = words[words.index("box") + 1]
            if "keypad" in words:
                digits = words[words.index("keypad") + 1 :]
                action = f"press {sum(map(int, digits)) % 10}"
            elif "boxes" in words:
                action = f"open {note}"
            else:
                action = f"go {words[-1]}"
            result = env.step(action)
            text = result.observation.text
        assert result is not None
        assert result.info["success"]


@pytest.mark.parametrize("wrong", ["go up", "", "open red open red", "press 99"])
def test_a_wrong_action_ends_the_episode(wrong):
    env = Vault()
    env.reset(3)
    result = env.step(wrong)
    assert (result.reward, result.done, result.info["success"]) == (0.0, True, False)


def test_the_note_and_the_keypads_thought_are_what_is_needed():
    for seed in range(200):
        rooms = rooms_of(seed)
        kinds = [room.kind for room in rooms]
        assert (kinds[0], kinds[-1], kinds.count("keypad")) == ("note", "final", 1)
        assert needed(rooms) == ({kinds.index("keypad") + 1}, {1})
        colour = rooms[-1].action.removeprefix("open ")
        told = [number for number, room in enumerate(rooms, 1) if colour in room.text.split()]
        assert told == [1]
        assert not any(colour in room.thought.split() for room in rooms[:-1])


def test_the_code_of_a_keypad_can_not_be_guessed_from_its_last_digits():
    """Given all digits but the first, every code is equally likely: chi-square at 1e-6."""
    from scipy.stats import chisquare

    codes = Counter(
        (room.text.split()[-1], room.action)
        for seed in range(2000)
        for room in rooms_of(seed)
        if room.kind == "keypad"
    )
    assert len(codes) == 25
    assert chisquare([*codes.values()]).pvalue > 1e-6


def test_outputs_of_the_expert_are_read_back():
    rooms = rooms_of(7)
    turns = [parse_turn(text) for text in expert_outputs(rooms, empty={1, 5}, omit={3: (2, 3)})]
    assert [turn.action for turn in turns] == [room.action for room in rooms]
    assert [turn.thought_omitted for turn in turns] == [True, False, False, False, True]
    assert [turn.omit for turn in turns] == [(), (), (2, 3), (), ()]
    assert not any(turn.errors for turn in turns)


def test_the_words_cover_every_episode_and_a_full_context_has_the_known_length():
    env = Vault()
    words = vault_words(env)
    for seed in range(100):
        context = OmitContext("")
        for room, output in zip(env.rooms(seed), expert_outputs(env.rooms(seed)), strict=True):
            context.add_observation(room.text)
            context.add_output(output)
        seen, written = (
            [number for text in texts for number in words.encode(text)]
            for texts in ([m["content"] for m in context.messages()[::2]], context.outputs)
        )
        assert 3 not in seen + written  # <unk>
        # Seen: 5 fillers and 2 tags each, note 3, exits 2, keypad 4, boxes 1. Written: 4 tags and
        # 2 words of action each, thoughts of 6 words (exits), 5 numbers and 5 words (final).
        assert len(seen) == 5 * 7 + 3 + 3 * 2 + 4 + 1
        assert len(written) == 5 * 6 + 3 * 6 + 5 + 5


def test_a_tokenizer_of_transformers_gives_the_same_ids():
    env = Vault()
    words = vault_words(env)
    tokenizer = words.tokenizer()
    draw = random.Random(0)
    for seed in range(50):
        omit = {turn: [number for number in range(1, turn + 1) if draw.random() < 0.3]
                for turn in range(1, 6)}  # fmt: skip
        context = OmitContext("")
        outputs = expert_outputs(env.rooms(seed), empty={2}, omit=omit)
        for room, output in zip(env.rooms(seed), outputs, strict=True):
            context.add_observation(room.text)
            context.add_output(output)
        text = "".join(message["content"] for message in context.messages())
        ids = words.encode(text)
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == ids
        assert tokenizer.decode(ids) == words.decode(ids)
    assert tokenizer.eos_token_id == words.closing_id
    assert (len(tokenizer), tokenizer.bos_token_id) == (len(words), BOS)


def test_words_that_are_tags_or_come_twice_are_refused():
    for wrong in (["go", "go"], ["<think>"]):
        with pytest.raises(ValueError, match=r"^words must be distinct"):
            Words(wrong, observations=1)


def test_sizes_without_a_vault_are_refused():
    for wrong in ({"turns": 2}, {"digits": 0}, {"modulus": 11}, {"modulus": 1}):
        with pytest.raises(ValueError, match=r"^turns must be 3 to 1000"):
            Vault(**wrong)
