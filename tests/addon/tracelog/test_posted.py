import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sequences import JSON_OBJECTS
from turnstile.addon.tracelog.frames import packed, unpacked
from turnstile.addon.tracelog.posted import (
    MAX_DEPTH,
    PostedError,
    posted_group,
    posted_object,
    posted_reward,
)
from turnstile.addon.tracelog.records import Group, Reward


def nested(depth: int) -> Any:
    return [] if depth == 1 else [nested(depth - 1)]


def test_a_group_and_a_reward_are_read() -> None:
    fields = {"group_id": "g", "max_trajectory_tokens": 4096, "metadata": {"task": "x"}}
    assert posted_group(fields, at=5.0) == Group(
        group_id="g", max_trajectory_tokens=4096, at=5.0, metadata={"task": "x"}
    )
    fields = {"group_id": "g", "rollout_id": "r", "sequence_id": "e-1.0", "reward": 1, "metadata": {"a": 1}}
    assert posted_reward(fields, at=5.0) == Reward(
        group_id="g", rollout_id="r", sequence_id="e-1.0", reward=1.0, at=5.0, metadata={"a": 1}
    )


def test_what_is_null_is_left_open() -> None:
    nothing = dict.fromkeys(("rollout_id", "sequence_id", "metadata"))
    assert posted_reward({"group_id": "g", "reward": -0.5, **nothing}, at=0.0) == Reward(
        group_id="g", rollout_id=None, sequence_id=None, reward=-0.5, at=0.0
    )


def test_a_group_without_an_id_gets_one_of_its_own() -> None:
    one, other = posted_group({}, at=0.0), posted_group({}, at=0.0)
    assert one.group_id != other.group_id
    assert one.group_id.startswith("group-")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "it is no JSON: Expecting value"),
        (b"{", "it is no JSON"),
        (b"\xff\xfe\xfa", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON: it is nested too deeply"),
        (b'{"reward": NaN}', "it is no JSON: NaN is no JSON number"),
        (b'{"reward": -Infinity}', "it is no JSON: -Infinity is no JSON number"),
        (b"[1]", "it is a JSON array, expected an object"),
        (b"null", "it is a JSON null, expected an object"),
        (b"true", "it is a JSON boolean, expected an object"),
    ],
)
def test_what_is_no_object_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(PostedError) as caught:
        posted_object(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"reward": 1, "rewrd": 2}', "there is no field 'rewrd'; there are group_id, rollout_id,"),
        ("{}", "reward is missing, expected a finite number"),
        ('{"reward": null}', "reward is null, expected a finite number"),
        ('{"reward": true}', "reward is true, expected a finite number"),
        ('{"reward": "1"}', "reward is '1', expected a finite number"),
        ('{"reward": [1]}', "reward is a JSON array, expected a finite number"),
        ('{"reward": 1e999}', "reward is Infinity, expected a finite number"),
        (f'{{"reward": 1{"0" * 400}}}', "reward is 1000"),
        ('{"reward": 1, "rollout_id": "a/b"}', "rollout_id is 'a/b', expected 1 to 128 of"),
        ('{"reward": 1, "rollout_id": 7}', "rollout_id is 7, expected 1 to 128 of"),
        ('{"reward": 1, "sequence_id": ""}', "sequence_id is '', expected the sequence_id of"),
        ('{"reward": 1, "metadata": []}', "metadata is a JSON array, expected an object"),
        ('{"reward": 1, "metadata": {"x": 1e999}}', "metadata holds a number too large for a float"),
        ('{"reward": 1, "metadata": {"x": 9223372036854775808}}', "metadata holds an integer of more than"),
        ('{"reward": 1, "metadata": {"\\ud800": 1}}', "metadata holds text that is no Unicode"),
        ('{"reward": 1, "metadata": {"x": "\\udc80"}}', "metadata holds text that is no Unicode"),
    ],
)
def test_a_reward_that_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(PostedError) as caught:
        posted_reward({"group_id": "g", **posted_object(text.encode())}, at=0.0)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("limit", [0, -1, 1.5, 4096.0, True, "4096", 1 << 60])
def test_a_limit_is_a_whole_number_of_at_least_1(limit: Any) -> None:
    with pytest.raises(PostedError, match=r"max_trajectory_tokens is .*, expected a whole number") as caught:
        posted_group({"max_trajectory_tokens": limit}, at=0.0)
    assert caught.value.param == "max_trajectory_tokens"


def test_metadata_may_be_nested_so_deep_and_no_deeper() -> None:
    metadata = {"x": nested(MAX_DEPTH - 1)}
    assert posted_group({"metadata": metadata}, at=0.0).metadata == metadata
    with pytest.raises(PostedError, match=f"metadata is nested more than {MAX_DEPTH} deep"):
        posted_group({"metadata": {"x": nested(MAX_DEPTH)}}, at=0.0)


def test_a_reward_needs_a_group() -> None:
    with pytest.raises(PostedError, match="there is no group_id"):
        posted_reward({"reward": 1}, at=0.0)


@given(JSON_OBJECTS | st.dictionaries(st.text(), st.integers(), max_size=2))
def test_metadata_that_passes_comes_out_of_a_log_as_it_went_in(metadata: dict[str, Any]) -> None:
    try:
        group = posted_group(posted_object(json.dumps({"metadata": metadata}).encode()), at=0.0)
    except PostedError:
        return
    assert unpacked(packed(group.metadata)) == group.metadata == metadata
