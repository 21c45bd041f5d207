from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.routing import bare_rows, experts, facts, reading_of, routed, rows
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.moe_shape import MoeShape
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.routing.trust import origin_doubts, value_doubts

SHAPE = MoeShape(layers=2, top_k=2, experts=64)
DENSE_FIRST = replace(SHAPE, dense_layers=frozenset({0}))
HIERARCHICAL = facts(server_info={"enable_hierarchical_cache": True})


def told(**meta_info: Any) -> ChoiceReading:
    return reading_of(routed(1, [1, 2, 3], [7], experts(1, 2, 3), meta_info=meta_info))


def doubts(given: RoutedRows, shape: MoeShape = SHAPE) -> list[str]:
    return list(value_doubts(given, shape))


def changed(row: int, layer: int, *ids: int) -> RoutedRows:
    """Rows of tokens 3 to 5, in which one layer of one row names other experts."""
    given = rows(1, 2, 3, start=3, dtype=np.int32)
    given.experts[row, layer] = ids
    return given


@pytest.mark.parametrize("version", [(0, 5, 7), (0, 5, 12), (0, 5, 12, 1), (0, 4)])
def test_an_old_sglang_may_give_the_rows_of_another_request(version: tuple[int, ...]) -> None:
    old = facts(version=version, version_text="OLD")
    assert list(origin_doubts(told(), old)) == [
        "SGLang OLD may give the rows of another request; 0.5.13 or later does not"
    ]


@pytest.mark.parametrize(
    "backend",
    [
        None,
        facts(),
        facts(version=(0, 5, 13)),
        facts(version=(0, 6)),
        facts(version=None, version_text=None),
        BackendFacts(kind="vllm", version=(0, 5, 1), version_text="0.5.1"),
        BackendFacts(kind="unknown", version=(0, 1), version_text="0.1"),
    ],
)
def test_any_other_backend_is_believed(backend: BackendFacts | None) -> None:
    assert list(origin_doubts(told(), backend)) == []


@pytest.mark.parametrize(
    ("details", "where"),
    [
        ({"device": 2, "host": 1}, "host"),
        ({"device": 2, "storage": 3, "storage_backend": "file"}, "storage"),
        ({"device": 0, "host": 1, "storage": 2}, "host and storage"),
    ],
)
def test_a_prompt_out_of_a_cache_that_keeps_no_routing_is_doubted(details: Any, where: str) -> None:
    (doubt,) = origin_doubts(told(cached_tokens_details=details), facts())
    assert doubt == f"a part of the prompt came from the {where} cache, which keeps no routing"


@pytest.mark.parametrize("details", [None, {}, {"device": 3}, {"device": 3, "host": 0, "storage": 0}, "host"])
def test_a_prompt_out_of_the_device_is_believed(details: Any) -> None:
    assert list(origin_doubts(told(cached_tokens_details=details), facts())) == []


@pytest.mark.parametrize("details", [None, {}, {"device": 3}, {"device": 3, "host": 0}])
@pytest.mark.parametrize("cached_tokens", [None, 1])
def test_with_a_hierarchical_cache_what_is_on_the_device_may_have_come_back_from_the_host(
    cached_tokens: int | None, details: Any
) -> None:
    (doubt,) = origin_doubts(told(cached_tokens=cached_tokens, cached_tokens_details=details), HIERARCHICAL)
    assert doubt == "a part of the prompt came from a hierarchical cache, which keeps no routing"


def test_a_hierarchical_cache_that_tells_of_the_host_is_doubted_once() -> None:
    (doubt,) = origin_doubts(told(cached_tokens=3, cached_tokens_details={"host": 1}), HIERARCHICAL)
    assert doubt == "a part of the prompt came from the host cache, which keeps no routing"


def test_a_hierarchical_cache_that_gave_nothing_is_believed() -> None:
    assert list(origin_doubts(told(cached_tokens=0), HIERARCHICAL)) == []


def test_rows_that_a_router_can_make_are_believed() -> None:
    assert doubts(rows(1, 2, 3)) == doubts(rows(60, 60, 60)) == doubts(rows()) == []


@pytest.mark.parametrize(("ids", "lowest"), [((-1, 5), -1), ((4, -(2**31)), -(2**31))])
def test_an_id_below_zero_is_named_with_its_place(ids: tuple[int, int], lowest: int) -> None:
    assert doubts(changed(1, 1, *ids)) == [f"row 4, layer 1 names expert {lowest}"]


def test_an_id_that_no_expert_has_is_named_with_its_place() -> None:
    assert doubts(changed(2, 0, 63, 64)) == ["row 5, layer 0 names expert 64, expected one below 64"]
    assert doubts(changed(2, 0, 62, 63)) == []


def test_no_model_has_more_than_65_536_experts() -> None:
    unknown = MoeShape(layers=2, top_k=2)
    assert doubts(changed(0, 0, 1, 65_535), unknown) == []
    assert doubts(changed(0, 0, 1, 65_536), unknown) == [
        "row 3, layer 0 names expert 65536, expected one below 65536"
    ]


@pytest.mark.parametrize("ids", [(5, 5), (0, 0)])
def test_an_expert_twice_in_a_layer_was_not_captured(ids: tuple[int, int]) -> None:
    assert doubts(changed(1, 1, *ids)) == [
        "row 4, layer 1 names an expert twice, or is all zeros: it was not captured"
    ]


def test_an_expert_twice_is_found_wherever_it_stands_in_its_layer() -> None:
    given = RoutedRows(0, np.array([[[7, 3, 9, 5]], [[7, 3, 9, 7]]]))
    assert doubts(given, MoeShape(1, 4, 64)) == [
        "row 1, layer 0 names an expert twice, or is all zeros: it was not captured"
    ]


def test_one_expert_in_two_layers_is_no_fault() -> None:
    assert doubts(RoutedRows(0, np.array([[[5, 6], [5, 6]]]))) == []


def test_a_dense_layer_is_all_zeros() -> None:
    zeros = changed(1, 0, 0, 0)
    assert doubts(zeros, DENSE_FIRST) == []
    assert len(doubts(zeros)) == 1
    assert len(doubts(changed(1, 1, 0, 0), DENSE_FIRST)) == 1


def test_a_dense_layer_beyond_a_row_is_no_error() -> None:
    beyond = replace(SHAPE, dense_layers=frozenset({0, 2, 9}))
    assert doubts(changed(1, 0, 0, 0), beyond) == []


def test_one_expert_a_token_may_be_expert_zero() -> None:
    zeros = RoutedRows(0, np.zeros((3, 2, 1), np.int32))
    assert doubts(zeros, MoeShape(layers=2, top_k=1, experts=64)) == []


def test_no_model_has_more_than_65_536_experts_whatever_it_says() -> None:
    assert doubts(changed(0, 0, 1, 65_536), replace(SHAPE, experts=100_000)) == [
        "row 3, layer 0 names expert 65536, expected one below 65536"
    ]


def test_of_rows_without_a_shape_only_the_range_is_known() -> None:
    given = bare_rows(1, 2, start=3)
    given.experts[1] = 0
    assert doubts(given, MoeShape()) == []
    given.experts[1, 2] = 200
    assert doubts(given, MoeShape(experts=64)) == ["row 4 names expert 200, expected one below 64"]


def test_as_many_rows_alike_were_not_captured_one_by_one() -> None:
    assert doubts(rows(*[5] * 7)) == []
    assert doubts(rows(*[5] * 8)) == ["all 8 rows are the same: they were not captured one by one"]
    assert doubts(rows(*[5] * 8, 6)) == []
    assert doubts(bare_rows(*[5] * 8), MoeShape()) == [
        "all 8 rows are the same: they were not captured one by one"
    ]


def test_every_doubt_is_told() -> None:
    given = rows(*[5] * 8, dtype=np.int32)
    given.experts[:, 0] = (-1, 64)
    given.experts[:, 1] = 3
    assert [doubt.split(",")[0] for doubt in doubts(given)] == [
        "row 0",
        "row 0",
        "row 0",
        "all 8 rows are the same: they were not captured one by one",
    ]
