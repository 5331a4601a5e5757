import pytest

from icml.agent_omit.ledger import ledger_of
from icml.agent_omit.messages import FRAME, BadEpisode, episode_of


def words(text):
    return len(text.split())


def user(text):
    return {"role": "user", "content": text}


def agent(text, **fields):
    return {"role": "assistant", "content": text, **fields}


def call(name, arguments="{}"):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_history_with_tools_counts_by_hand():
    episode = episode_of(
        [
            {"role": "system", "content": "be brief"},
            user("read a.txt"),
            agent("i look first", tool_calls=[call("read", "a.txt")]),
            {"role": "tool", "content": "one two three four"},
            agent("done"),
        ],
        words,
    )
    assert episode.task == 2 + 2 + 2 * FRAME
    first, second = episode.turns
    assert (first.observation, first.placeholder) == (0, 0)
    assert (first.thought, first.action) == (3, 2 + FRAME)
    assert (second.observation, second.placeholder) == (4 + FRAME, 1 + FRAME)
    assert (second.thought, second.action) == (0, 1 + FRAME)
    # Prompts: 12; 12 + 9 + 8. Outputs: 9 and 5.
    assert ledger_of(episode.task, episode.turns).total == 12 + 29 + 9 + 5


def test_where_there_are_tools_an_instruction_is_no_observation():
    log = [user("a"), agent("x", tool_calls=[call("f")]), {"role": "tool", "content": "b c"}]
    turn = episode_of([*log, user("now stop please"), agent("y")], words).turns[1]
    assert turn.observation == (2 + FRAME) + (3 + FRAME)
    assert turn.placeholder == (1 + FRAME) + (3 + FRAME)


def test_without_tools_what_the_user_says_is_the_observation():
    turn = episode_of([user("go"), agent("ok"), user("a door ahead"), agent("open")], words).turns[
        1
    ]
    assert (turn.observation, turn.placeholder) == (3 + FRAME, 1 + FRAME)


@pytest.mark.parametrize(
    ("message", "thought", "action", "private"),
    [
        (agent("<think>go up now</think> up"), 3, 2, 0),
        (agent("<think>never closed"), 0, 2, 0),
        (agent("Thought: i go\nAction: up"), 3, 2, 0),
        (agent("up", reasoning_content="long secret thought"), 0, 1, 3),
        (agent(None, tool_calls=[call("up")]), 0, 2, 0),
        (agent([{"type": "thinking", "thinking": "a b"}, {"type": "text", "text": "up"}]), 0, 1, 2),
        (agent([{"type": "text", "text": "so up"}, {"type": "tool_use", "name": "go"}]), 2, 1, 0),
        (agent("so", function_call={"name": "go", "arguments": "up"}), 1, 2, 0),
    ],
)
def test_an_outputs_thought_is_told_from_its_action(message, thought, action, private):
    turn = episode_of([user("go"), message], words).turns[0]
    assert (turn.thought, turn.action - FRAME, turn.private) == (thought, action, private)


def test_results_in_a_users_message_are_observations_beside_what_the_user_says():
    parts = [{"type": "tool_result", "content": [{"type": "text", "text": "a b c"}]}]
    log = [user("go"), agent([{"type": "tool_use", "name": "f", "input": {"x": 1}}])]
    said = [*parts, {"type": "text", "text": "hurry up"}]
    turn = episode_of([*log, user(said), agent("ok")], words).turns[1]
    assert turn.observation == (3 + FRAME) + (2 + FRAME)
    assert turn.placeholder == (1 + FRAME) + (2 + FRAME)


def test_pictures_are_counted_as_pictures():
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    assert episode_of([user([picture]), agent("a cat")], words).pictures == 1


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([user("a")], "no message is the agent's"),
        ([], "no message is the agent's"),
        ([{"role": "sk-secret", "content": "a"}], "role is none of"),
        ([{"content": "a"}], "role is none of"),
        ([{"role": ["user"], "content": "a"}], "role is none of"),
        (["a"], "no JSON object"),
        ([agent(3)], "neither text nor a list"),
        ([agent([{"text": "a"}])], "has no type"),
        ([agent("a", tool_calls=3)], "no list"),
        ([agent("a", tool_calls=["f"])], "no JSON object"),
    ],
)
def test_what_is_no_episode_is_refused_without_a_word_of_it(messages, reason):
    with pytest.raises(BadEpisode, match=reason) as refused:
        episode_of(messages, words)
    assert "secret" not in str(refused.value)
