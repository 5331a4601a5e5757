from icml.core.envs.protocol import Observation
from icml.core.rl.rollout import History
from icml.core.rl.transcript import Transcript


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def test_each_prompt_continues_the_turn_before():
    render = Transcript(encode, opening="T:{task} O:{text}>", following="<{text}>")
    history = History([Observation("red", task="go")])
    first = render(history)
    assert first == encode("T:go O:red>")
    history.responses.append([1, 2])
    history.observations.append(Observation("blue", task="go"))
    assert render(history) == [*first, 1, 2, *encode("<blue>")]


def test_a_missing_task_is_empty_and_braces_of_the_text_are_kept():
    render = Transcript(encode, opening="{task}|{text}")
    assert render(History([Observation("{x}")])) == encode("|{x}")
