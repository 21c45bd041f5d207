import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chat import completion
from tests.support.exchanges import exchange
from tests.support.logs import (
    answered,
    answered_choice,
    replied,
    stream_events,
    streamed,
    weight_reading,
    write_log,
)
from turnstile.addon.tracelog.records import Exchange, Reward
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.errors import UnknownPolicy
from turnstile.compiler.export import format_named, read_sequences
from turnstile.compiler.output import write_compilation
from turnstile.compiler.pipeline import Options, compile_groups
from turnstile.compiler.policies import POLICIES
from turnstile.compiler.replay import Replay
from turnstile.compiler.selection import Selection
from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.verify import verify

STRICT = Options()
Compiled = tuple[list[TrainingSequence], list[tuple[str, str, str | None]]]


def compiled(path: Path, options: Options = STRICT) -> Compiled:
    """The sequences of all groups, and (kind, severity, exchange) of all findings."""
    sequences = list[TrainingSequence]()
    findings = list[tuple[str, str, str | None]]()
    with Replay([path]) as replay:
        for group in compile_groups(replay, options):
            sequences += group.sequences
            findings += [(found.kind, found.severity, found.exchange_id) for found in group.findings]
    return sequences, findings


def shape(sequence: TrainingSequence) -> tuple[list[int], str]:
    """Tokens, and the mask as runs: -2 T1."""
    runs = [f"{'T' if is_trained else '-'}{length}" for is_trained, length in sequence.segment_info]
    return sequence.tokens.tolist(), " ".join(runs)


def shapes(path: Path, options: Options = STRICT) -> list[tuple[list[int], str]]:
    return [shape(sequence) for sequence in compiled(path, options)[0]]


def test_calls_that_interleave_are_told_apart(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        answered(1, [1, 2], [3]),
        answered(2, [5, 6], [7]),
        answered(3, [1, 2, 3, 4], [8]),
        answered(4, [5, 6, 7, 9], [8]),
    )
    assert shapes(tmp_path) == [([1, 2, 3, 4, 8], "-2 T1 -1 T1"), ([5, 6, 7, 9, 8], "-2 T1 -1 T1")]


def test_a_record_that_precedes_what_it_continues_extends_it(tmp_path: Path) -> None:
    late = answered(2, [1, 2, 3, 4], [5], started_at=2.0)
    write_log(tmp_path, late, answered(1, [1, 2], [3], started_at=1.0))
    assert shapes(tmp_path) == [([1, 2, 3, 4, 5], "-2 T1 -1 T1")]


def test_the_choice_that_was_continued_is_extended(tmp_path: Path) -> None:
    reply = completion(answered_choice(0, [1], [2]), answered_choice(1, [1], [3, 4]))
    write_log(tmp_path, replied(1, reply), answered(2, [1, 3, 4, 5], [6]))
    sequences, findings = compiled(tmp_path)
    assert [shape(sequence) for sequence in sequences] == [
        ([1, 2], "-1 T1"),
        ([1, 3, 4, 5, 6], "-1 T2 -1 T1"),
    ]
    assert [call.choice for call in sequences[1].exchanges] == [1, 0]
    assert findings == []


def test_a_bad_call_spoils_no_other(tmp_path: Path) -> None:
    bad = answered(2, [1, 2.5], [3])
    write_log(tmp_path, answered(1, [1, 2], [3]), bad, answered(3, [1, 2, 3, 4], [5]))
    sequences, findings = compiled(tmp_path)
    assert [shape(sequence) for sequence in sequences] == [([1, 2, 3, 4, 5], "-2 T1 -1 T1")]
    assert findings == [("token_type", "error", bad.exchange_id)]


def test_a_retry_goes_on_without_the_answer_that_nobody_got(tmp_path: Path) -> None:
    question = {"messages": [{"role": "user", "content": "roll dice"}]}
    write_log(
        tmp_path,
        answered(1, [1, 2], [3], request=question, delivered=False),
        answered(2, [1, 2], [4], request=question),
        answered(3, [1, 2, 4, 5], [6]),
    )
    sequences, findings = compiled(tmp_path)
    assert [shape(sequence) for sequence in sequences] == [
        ([1, 2, 3], "-2 T1"),
        ([1, 2, 4, 5, 6], "-2 T1 -1 T1"),
    ]
    assert [sequence.flags for sequence in sequences] == [("undelivered",), ()]
    assert sequences[1].parent is not None
    assert (sequences[1].parent.cause, sequences[1].parent.shared_tokens) == ("aborted", 2)
    assert findings == [("undelivered", "warning", exchange(1).exchange_id)]


def test_an_empty_abort_is_reported_and_its_retry_compiled(tmp_path: Path) -> None:
    aborted = answered(1, [1, 2], [], choice_fields={"finish_reason": "abort"})
    write_log(tmp_path, aborted, answered(2, [1, 2], [4]))
    sequences, findings = compiled(tmp_path)
    assert [shape(sequence) for sequence in sequences] == [([1, 2, 4], "-2 T1")]
    assert findings == [("aborted", "warning", aborted.exchange_id)]


def test_streams_merge_with_whole_answers_and_their_versions_were_read_apart(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        weight_reading("step-1", 1000.0),
        streamed(1, stream_events([1, 2], [3, 4])),
        weight_reading("step-1", 1001.75),
        answered(2, [1, 2, 3, 4, 5], [6]),
        streamed(3, stream_events([1, 2, 3, 4, 5, 6, 7], [8])),
        weight_reading("step-2", 1003.75),
    )
    (sequence,), findings = compiled(tmp_path)
    assert shape(sequence) == ([1, 2, 3, 4, 5, 6, 7, 8], "-2 T2 -1 T1 -1 T1")
    assert sequence.logprobs.tolist() == [0.0, 0.0, -0.125, -0.25, 0.0, -0.125, 0.0, -0.125]
    assert sequence.weight_versions == ((0, ""), (4, "step-1"), (6, ""))
    assert sequence.metadata == {"weight_version_read": [[0, "step-1"], [4, ""]]}
    assert findings == [("weight_version_moved", "warning", exchange(3).exchange_id)]


def test_streams_cut_off_are_left_out_and_their_retries_compiled(tmp_path: Path) -> None:
    whole = stream_events([1, 2], [3, 4])
    write_log(
        tmp_path,
        streamed(1, whole[:3]),
        streamed(2, whole[:3], outcome="client_left"),
        streamed(3, whole[:3], outcome="backend_failed"),
        streamed(4, whole),
    )
    sequences, findings = compiled(tmp_path)
    assert [shape(sequence) for sequence in sequences] == [([1, 2, 3, 4], "-2 T2")]
    assert findings == [
        ("truncated_stream", "error", exchange(1).exchange_id),
        ("undelivered", "error", exchange(2).exchange_id),
        ("upstream_error", "error", exchange(3).exchange_id),
    ]


def test_an_answer_resent_and_spelled_otherwise_names_its_cause(tmp_path: Path) -> None:
    user, more = {"role": "user", "content": "say ab"}, {"role": "user", "content": "again"}
    answer = {"role": "assistant", "content": "4"}
    write_log(
        tmp_path,
        answered(1, [1, 2], [3, 4], request={"messages": [user]}),
        answered(2, [1, 2, 34, 5], [6], request={"messages": [user, answer, more]}),
        answered(3, [1, 2, 34, 5, 6, 7], [8], request={"messages": [user, answer, more, answer, more]}),
    )
    sequences, _ = compiled(tmp_path)
    assert [shape(sequence) for sequence in sequences] == [
        ([1, 2, 3, 4], "-2 T2"),
        ([1, 2, 34, 5, 6, 7, 8], "-4 T1 -1 T1"),
    ]
    assert sequences[1].parent is not None
    assert sequences[1].parent.cause == "retokenized"


def test_sampling_parameters_stand_with_what_they_sampled(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "warm"}]
    write_log(
        tmp_path,
        answered(1, [1], [2], request={"messages": messages, "temperature": 0.6, "top_p": 0.95}),
        answered(2, [1, 2], [3], request={"messages": messages, "temperature": 1.0}),
    )
    (sequence,), _ = compiled(tmp_path)
    assert sequence.sampling == ({"temperature": 0.6, "top_p": 0.95}, {"temperature": 1.0})
    assert shape(sequence) == ([1, 2, 3], "-1 T1 T1")


def test_sequences_longer_than_wanted_are_cut_and_said(tmp_path: Path) -> None:
    write_log(
        tmp_path, answered(1, [1, 2, 3, 4], [5]), answered(2, [1, 2, 3, 4], [6, 7]), answered(3, [1, 2], [6])
    )
    sequences, findings = compiled(tmp_path, Options(selection=Selection(max_tokens=5)))
    assert [shape(sequence) for sequence in sequences] == [
        ([1, 2, 3, 4, 5], "-4 T1"),
        ([1, 2, 3, 4, 6], "-4 T1"),
        ([1, 2, 6], "-2 T1"),
    ]
    assert [sequence.flags for sequence in sequences] == [(), ("truncated",), ()]
    assert findings == [("truncated", "warning", exchange(2).exchange_id)]


def test_per_request_makes_a_sequence_of_every_turn(tmp_path: Path) -> None:
    write_log(tmp_path, answered(1, [1, 2], [3]), answered(2, [1, 2, 3, 4], [5]))
    sequences, _ = compiled(tmp_path, Options("per-request"))
    assert [shape(sequence) for sequence in sequences] == [([1, 2, 3], "-2 T1"), ([1, 2, 3, 4, 5], "-4 T1")]
    assert [sequence.parent for sequence in sequences] == [None, None]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UnknownPolicy, match="no policy 'lax'; there are strict, per-request"):
        Options("lax")


def test_groups_share_nothing(tmp_path: Path) -> None:
    write_log(tmp_path, answered(1, [1], [2], group_id="a"), answered(2, [1, 2, 3], [4], group_id="b"))
    sequences, _ = compiled(tmp_path)
    assert [(sequence.group_id, shape(sequence)) for sequence in sequences] == [
        ("a", ([1, 2], "-1 T1")),
        ("b", ([1, 2, 3, 4], "-3 T1")),
    ]


def test_a_reward_stands_on_its_sequences(tmp_path: Path) -> None:
    reward = Reward(group_id="g", rollout_id="r", sequence_id=None, reward=1.0, at=5.0)
    write_log(tmp_path, answered(1, [1], [2], rollout_id="r"), answered(2, [9], [2], rollout_id="s"), reward)
    sequences, _ = compiled(tmp_path)
    assert [(sequence.rollout_id, sequence.reward) for sequence in sequences] == [("r", 1.0), ("s", None)]


def test_a_reward_for_a_rollout_that_merged_into_another_one_is_told_so(tmp_path: Path) -> None:
    reward = Reward(group_id="g", rollout_id="b", sequence_id=None, reward=1.0, at=5.0)
    one, other = answered(1, [1, 2], [3], rollout_id="a"), answered(2, [1, 2, 3, 4], [5], rollout_id="b")
    (sequence,) = found = compile_logs(write_log(tmp_path, one, other, reward))
    assert (sequence.rollout_id, sequence.reward, len(sequence.exchanges)) == ("a", None, 2)
    (finding,) = found.findings
    assert finding.kind == "unmatched_reward"
    assert "whose turns all went on sequences of other rollouts" in finding.message


def test_the_metadata_of_a_reward_overwrite_nothing_that_was_recorded(tmp_path: Path) -> None:
    claims = {"group": "mine", "policy": "p", "weight_version_read": "x", "score": 3}
    reward = Reward(group_id="g", rollout_id=None, sequence_id=None, reward=1.0, at=5.0, metadata=claims)
    sequences, findings = compiled(write_log(tmp_path, answered(1, [1], [2]), reward))
    assert [each.metadata for each in sequences] == [{"score": 3}]
    assert findings == [("reward_metadata", "warning", None)]


def test_progress_is_told_exchange_by_exchange(tmp_path: Path) -> None:
    write_log(tmp_path, exchange(1, status=500), answered(2, [1], [2], group_id="b"), answered(3, [1], [2]))
    told: list[int] = []
    with Replay([tmp_path]) as replay:
        groups = [
            (group.group_id, group.exchanges, group.turns)
            for group in compile_groups(replay, STRICT, told.append)
        ]
        assert sum(told) == replay.exchanges
    assert groups == [("g", 2, 1), ("b", 1, 1)]
    assert told == [1, 1, 1]


@st.composite
def recordings(draw: st.DrawFn) -> list[Exchange]:
    """Exchanges that go on from what earlier ones saw and sampled, in every way."""
    paths: list[list[int]] = [[1]]
    recorded = []
    for number in range(draw(st.integers(1, 10))):
        prompt = draw(st.sampled_from(paths)) + draw(st.lists(st.integers(1, 3), max_size=2))
        sampled = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
        fields: dict[str, Any] = {"rollout_id": draw(st.sampled_from([None, "a", "b"]))}
        recorded.append(answered(number, prompt, sampled, **fields))
        paths.append(prompt + sampled)
    return recorded


@given(recordings(), st.randoms())
@settings(max_examples=30)
def test_every_sampled_token_is_trained_once_whatever_the_order_on_disk(
    tmp_path_factory: pytest.TempPathFactory, recorded: list[Exchange], shuffler: random.Random
) -> None:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    write_log(one, *recorded)
    shuffled = list(recorded)
    shuffler.shuffle(shuffled)
    half = len(shuffled) // 2
    write_log(other, *shuffled[:half])
    write_log(other, *shuffled[half:])
    sequences, findings = compiled(one)
    again, _ = compiled(other)
    assert [(shape(found), found.exchanges, found.parent) for found in sequences] == [
        (shape(found), found.exchanges, found.parent) for found in again
    ]
    assert findings == []
    calls = [call.exchange_id for sequence in sequences for call in sequence.exchanges]
    assert sorted(calls) == sorted(exchange.exchange_id for exchange in recorded)
    trained = sum(int(sequence.loss_mask.sum()) for sequence in sequences)
    assert trained == sum(len(turn) for turn in _sampled(recorded))


def _sampled(recorded: list[Exchange]) -> list[list[Any]]:
    replies = [orjson.loads(exchange.reply) for exchange in recorded]
    return [reply["choices"][0]["meta_info"]["output_token_logprobs"] for reply in replies]


def test_choices_in_any_order_and_malformed_calls_spoil_nothing(tmp_path: Path) -> None:
    reply = completion(answered_choice(1, [1, 2, 3], [7]), answered_choice(0, [1, 2, 3], [8]))
    odd = answered_choice(0, [1], [2], message={"tool_calls": True})
    write_log(
        tmp_path, replied(1, reply), replied(2, completion(odd)), answered(3, [4, 5], [6], group_id="h")
    )
    assert sorted(shapes(tmp_path)) == [
        ([1, 2], "-1 T1"),
        ([1, 2, 3, 7], "-3 T1"),
        ([1, 2, 3, 8], "-3 T1"),
        ([4, 5, 6], "-2 T1"),
    ]


TOKENS = st.lists(st.integers(1, 2), min_size=1, max_size=4)


@st.composite
def random_groups(draw: st.DrawFn) -> list[Exchange]:
    """Calls that go on with, resample or rewrite earlier ones; choices come in any order."""
    exchanges, known = list[Exchange](), [[1]]
    for number in range(1, draw(st.integers(1, 7)) + 1):
        start = draw(st.sampled_from(known))
        prompt = start[: draw(st.integers(1, len(start)))] + draw(st.lists(st.integers(1, 2), max_size=2))
        choices = []
        for index in draw(st.sampled_from([[0], [0, 1], [1, 0]])):
            sampled, version = draw(TOKENS), draw(st.sampled_from(["7", "8"]))
            spans = [{"version": version, "start": 0, "end": len(sampled)}]
            told = {
                "weight_version": version,
                "weight_versions": spans,
                "cached_tokens": draw(st.integers(-1, 9)),
            }
            choices.append(answered_choice(index, prompt, sampled, meta_info=told))
            known.append(prompt + sampled)
        reply = completion(*choices, metadata=None)
        rollout_id, delivered = draw(st.sampled_from([None, "a", "b"])), draw(st.booleans())
        exchanges.append(replied(number, reply, rollout_id=rollout_id, delivered=delivered))
    return exchanges


@settings(max_examples=50)
@given(random_groups(), st.sampled_from([".jsonl", ".tseq"]), st.sampled_from(list(POLICIES)))
def test_whatever_is_recorded_compiles_to_what_verify_holds_true(
    exchanges: list[Exchange], suffix: str, policy: str
) -> None:
    with TemporaryDirectory() as folder:
        log, output = write_log(Path(folder), *exchanges), Path(folder, "out" + suffix)
        with Replay([log]) as replay:
            write_compilation(replay, output, format_named(None, output), Options(policy), lambda _: None)
        choices = sum(exchange_.reply.count(b'"index"') for exchange_ in exchanges)
        assert verify([log, output]).exchanges == len(exchanges)
        assert sum(len(each.exchanges) for each in read_sequences(output)) == choices
