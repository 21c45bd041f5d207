from pathlib import Path

from tests.support.logs import answered, write_log
from tests.support.sequences import SEQUENCE, sequence
from turnstile.addon.tracelog.records import Group, Reward
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.group_metadata import with_group_metadata


def made(at: float = 0.0, **metadata: object) -> Group:
    return Group(group_id="g", max_trajectory_tokens=None, at=at, metadata=metadata)


def test_what_was_said_of_a_group_stands_beside_what_else_is_known() -> None:
    (found,) = with_group_metadata([sequence(metadata={"passed": 3})], made(task="x"))
    assert found.metadata == {"passed": 3, "group": {"task": "x"}}


def test_a_group_without_metadata_changes_nothing() -> None:
    assert list(with_group_metadata([SEQUENCE], None)) == [SEQUENCE]
    assert list(with_group_metadata([SEQUENCE], made())) == [SEQUENCE]


def test_a_log_alone_tells_rewards_and_groups(tmp_path: Path) -> None:
    reward = Reward(group_id="g", rollout_id=None, sequence_id=None, reward=0.5, at=3.0, metadata={"why": 1})
    write_log(tmp_path / "a", made(at=1.0, task="old"), answered(1, [1, 2], [3]))
    write_log(tmp_path / "b", reward, made(at=2.0, task="new"))
    (found,) = compile_logs(tmp_path)
    assert (found.reward, found.metadata) == (0.5, {"why": 1, "group": {"task": "new"}})
