import json

import msgpack
import pytest

from turnstile.addon.backends.facts import BackendFacts, at_least, parsed_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.5.23", (0, 5, 23)),
        ("0.5.20.post1", (0, 5, 20)),
        ("0.5.21rc0", (0, 5, 21)),
        ("0.5.13.dev45+g0123abc", (0, 5, 13)),
        ("v0.6", (0, 6)),
        (" 0.33.0\n", (0, 33, 0)),
        ("0.0.0.dev1+gabcdef", None),
        ("main", None),
        ("", None),
        (None, None),
        (5, None),
    ],
)
def test_versions_are_read_tolerantly(text: object, version: tuple[int, ...] | None) -> None:
    assert parsed_version(text) == version


@pytest.mark.parametrize(
    ("version", "expected"),
    [((0, 5, 13), True), ((0, 5, 23), True), ((0, 6), True), ((0, 5, 12), False), (None, False)],
)
def test_an_unknown_version_is_at_least_nothing(version: tuple[int, ...] | None, expected: bool) -> None:
    assert at_least(BackendFacts(kind="sglang", version=version), 0, 5, 13) is expected


FACTS = BackendFacts(
    kind="sglang",
    version=(0, 5, 23),
    version_text="0.5.23",
    model_path="/models/moe",
    served_model_name="tiny",
    server_info={"enable_return_routed_experts": True, "tool_call_parser": "qwen"},
    model_info={"weight_version": "step-1", "tool_call_parser": "qwen", "reasoning_parser": None},
    model_config={"vocab_size": 151936},
)


def test_facts_survive_a_record() -> None:
    assert BackendFacts.from_record(msgpack.unpackb(msgpack.packb(FACTS.as_record()))) == FACTS
    assert BackendFacts.from_record(json.loads(json.dumps(FACTS.as_record()))) == FACTS


def test_a_record_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert BackendFacts.from_record(FACTS.as_record() | {"of_the_future": 1}) == FACTS
    assert BackendFacts.from_record({"kind": "unknown"}) == BackendFacts(kind="unknown")


def test_what_is_known_can_be_asked_for_by_name() -> None:
    assert FACTS.vocab_size == 151936
    assert FACTS.routed_experts_on
    assert FACTS.tool_call_parser == "qwen"
    assert FACTS.reasoning_parser is None
    assert not FACTS.usage_by_default


def test_what_is_unknown_is_not_made_up() -> None:
    facts = BackendFacts(kind="unknown")
    assert facts.vocab_size is None
    assert not facts.routed_experts_on
    assert facts.tool_call_parser is None


@pytest.mark.parametrize(
    ("config", "architectures", "expected"),
    [
        ({"num_experts": 128}, None, True),
        ({"num_local_experts": 8}, ["MixtralForCausalLM"], True),
        ({"n_routed_experts": 256}, None, True),
        ({"num_experts": 0, "num_local_experts": 1, "n_routed_experts": None}, ["LlamaForCausalLM"], False),
        (None, ["Qwen3MoeForCausalLM"], True),
        (None, ["Qwen3ForCausalLM"], False),
        (None, "Qwen3MoeForCausalLM", False),
        (None, None, False),
    ],
)
def test_a_mixture_of_experts_is_known_by_its_configuration_or_its_name(
    config: dict[str, object] | None, architectures: object, expected: bool
) -> None:
    facts = BackendFacts(kind="sglang", model_config=config, model_info={"architectures": architectures})
    assert facts.has_experts is expected


def test_only_a_server_that_says_so_has_its_routed_experts_off() -> None:
    said = [{}, *({"enable_return_routed_experts": value} for value in (True, None, False))]
    facts = [BackendFacts(kind="sglang", server_info=server_info) for server_info in said]
    assert [each.routed_experts_off for each in facts] == [False, False, False, True]
