import base64
import struct
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.support.exchanges import exchange
from tests.support.routed_rollouts import routed_turns
from turnstile.addon.tracelog.encoding import encode_exchange
from turnstile.addon.tracelog.frames import HEAD_SIZE, Head, RecordType, unpacked
from turnstile.addon.tracelog.reader import open_log
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter

TURNS, NEW, A_TOKEN = 12, 60, 16
EXPERTS = TURNS * NEW * A_TOKEN  # of one rollout at its end
MOST = 1.02  # times that: a turn stores up to two experts again that the one before had


def written(directory: Path, made: list[Exchange]) -> Path:
    writer = LogWriter(directory, program="test")
    for each in made:
        writer.write([each])
    writer.close()
    return Path(writer.position.path)


def records(path: Path) -> list[tuple[int, int, Any]]:
    """(type, size of the body, envelope) of every record of a closed log."""
    data, found = path.read_bytes(), []
    at = 8
    while at < len(data) - 16:
        head = Head.unpack(data[at : at + HEAD_SIZE])
        assert head is not None
        envelope = data[at + HEAD_SIZE : at + HEAD_SIZE + head.envelope_size]
        found.append((head.type, head.body_size, unpacked(envelope)))
        at += head.record_size
    return found


def blob_bytes(path: Path) -> int:
    return sum(size for kind, size, _ in records(path) if kind in (RecordType.BLOB, RecordType.NARROW_BLOB))


def check(path: Path, made: list[Exchange]) -> None:
    with open_log(path) as log:
        assert [each for _, each in log.exchanges()] == made
        log.check()


def test_routing_costs_a_byte_an_expert_once(tmp_path: Path) -> None:
    made = routed_turns(1, TURNS, new_tokens=NEW, a_token=A_TOKEN)
    path = written(tmp_path, made)
    check(path, made)
    assert 0.9 * EXPERTS < blob_bytes(path) < MOST * EXPERTS
    assert {kind for kind, _, _ in records(path)} >= {RecordType.NARROW_BLOB}


def test_routing_is_found_in_a_log_without_index(tmp_path: Path) -> None:
    made = routed_turns(1, TURNS)
    writer = LogWriter(tmp_path, program="test")
    writer.write(made)
    check(Path(writer.position.path), made)
    writer.close()


@pytest.mark.parametrize(("experts", "a_byte"), [(2**8, 1), (2**16, 2), (2**20, 4)])
def test_routing_is_stored_in_the_smallest_integers_that_hold_it(
    tmp_path: Path, experts: int, a_byte: int
) -> None:
    made = routed_turns(1, TURNS, new_tokens=NEW, a_token=A_TOKEN, experts=experts)
    path = written(tmp_path, made)
    check(path, made)
    assert 0.9 * EXPERTS * a_byte < blob_bytes(path) < MOST * EXPERTS * a_byte


@pytest.mark.parametrize("a_token", [1, 4, 5, 6, 7])
def test_rows_that_end_inside_a_group_of_characters_come_back(tmp_path: Path, a_token: int) -> None:
    made = routed_turns(1, TURNS, new_tokens=1500 // a_token, a_token=a_token)
    path = written(tmp_path, made)
    check(path, made)
    assert blob_bytes(path) < 1.1 * TURNS * 1500


def test_attempts_side_by_side_each_go_on_from_their_own_turn(tmp_path: Path) -> None:
    attempts = [
        [
            replace(each, rollout_id=None)
            for each in routed_turns(seed, TURNS, new_tokens=NEW, a_token=A_TOKEN)
        ]
        for seed in range(8)
    ]
    made = [*chain.from_iterable(zip(*attempts, strict=True))]
    path = written(tmp_path, made)
    check(path, made)
    assert blob_bytes(path) < 8 * MOST * EXPERTS


def test_of_several_choices_each_repeats_the_first_one_of_the_turn_before(tmp_path: Path) -> None:
    made = routed_turns(1, TURNS, new_tokens=NEW, a_token=A_TOKEN, choices=3)
    path = written(tmp_path, made)
    check(path, made)
    assert blob_bytes(path) < 3 * MOST * EXPERTS


def test_routing_that_was_computed_anew_otherwise_comes_back(tmp_path: Path) -> None:
    made = routed_turns(1, 4)
    text = base64.b64encode(struct.pack("<3i", 1, 2, 3) * 2000)
    made += [exchange(9, reply=b'{"routed_experts":"' + text + b'","x":1}', request=made[-1].request)]
    made += routed_turns(1, 5)[4:]
    check(written(tmp_path, made), made)


def test_remembering_a_reply_takes_little_memory(tmp_path: Path) -> None:
    made = routed_turns(1, 40, new_tokens=100)[-1]
    writer = LogWriter(tmp_path, program="test")
    encoded = encode_exchange(made, writer.log_id, writer._bases)
    assert encoded.as_base(1).memory < len(made.reply) / 10
    writer.close()
