import pytest

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.capture.shortcomings import what_to_do

IDS = ("prompt_token_ids", "sampled_token_ids")


def sglang(text: str, *version: int) -> BackendFacts:
    return BackendFacts(kind="sglang", version=version, version_text=text)


@pytest.mark.parametrize(
    ("facts", "advice"),
    [
        (sglang("0.5.9", 0, 5, 9), "SGLang 0.5.9 cannot report them; upgrade to 0.5.13 or later"),
        (sglang("0.5.20", 0, 5, 20), "start SGLang with --return-input-ids --return-output-ids"),
        (sglang("0.5.13", 0, 5, 13), "start SGLang (0.5.20 or later) with --return-input-ids"),
        (BackendFacts(kind="unknown"), "let Turnstile talk to a worker directly"),
        (None, "let Turnstile talk to a worker directly"),
        (BackendFacts(kind="vllm"), "vLLM must be one that knows return_token_ids"),
    ],
)
def test_missing_ids_come_with_what_to_do_for_this_backend(facts: BackendFacts | None, advice: str) -> None:
    assert advice in what_to_do(IDS, facts)


def test_missing_routing_is_another_flag() -> None:
    advice = what_to_do(("routed_experts",), sglang("0.5.23", 0, 5, 23))
    assert advice == "start SGLang with --enable-return-routed-experts, or set turnstile_moe=off"
