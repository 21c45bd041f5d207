from pathlib import Path

import pytest

from turnstile.compiler.errors import RewardFileError
from turnstile.compiler.reward_file import read_rewards


def test_rewards_are_read_by_group_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rewards.jsonl"
    path.write_text(
        '{"group_id": "g", "reward": 1}\n\n'
        '{"group_id": "h", "rollout_id": "r", "reward": 0.5, "metadata": {"a": 1}}\n'
        '{"group_id": "g", "sequence_id": "e-1.0", "reward": -1}'
    )
    found = read_rewards(path)
    assert {
        group_id: [(each.line, each.reward.reward) for each in found[group_id]] for group_id in found
    } == {
        "g": [(1, 1.0), (4, -1.0)],
        "h": [(3, 0.5)],
    }
    assert (found["h"][0].file, found["h"][0].reward.metadata) == ("rewards.jsonl", {"a": 1})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "it is no JSON: "),
        ("7", "it is a JSON number, expected an object"),
        ('{"reward": 1}', "there is no group_id"),
        ('{"group_id": "g", "reward": "1"}', "reward is '1', expected a finite number"),
        ('{"group_id": "g", "reward": 1, "score": 2}', "there is no field 'score'; there are group_id,"),
    ],
)
def test_a_line_that_is_no_reward_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rewards.jsonl"
    path.write_text(f'{{"group_id": "g", "reward": 1}}\n{line}\n')
    with pytest.raises(RewardFileError) as caught:
        read_rewards(path)
    assert str(caught.value).startswith(f"{path}, line 2: {message}")
