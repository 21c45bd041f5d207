from typing import Any

import pytest

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.capture.options import Moe
from turnstile.addon.capture.routing import asks_for_delta, routing_asked, routing_problem, why_all_rows

EXPERTS = {"num_experts": 128}


def sglang(*version: int, config: dict[str, Any] | None = None, **server_info: Any) -> BackendFacts:
    text = ".".join(map(str, version))
    return BackendFacts(
        kind="sglang",
        version=version or None,
        version_text=text or None,
        server_info=server_info,
        model_config=config,
    )


ON = sglang(0, 5, 23, config=EXPERTS, enable_return_routed_experts=True)
OFF = sglang(0, 5, 23, config=EXPERTS, enable_return_routed_experts=False)
VLLM = BackendFacts(kind="vllm", version=(0, 33, 0))


@pytest.mark.parametrize(
    ("option", "facts", "asked"),
    [
        ("auto", ON, "full"),
        ("auto", OFF, "off"),
        ("auto", None, "off"),
        ("off", ON, "off"),
        ("full", OFF, "full"),
        ("full", None, "full"),
        ("delta", OFF, "full"),
        ("delta", None, "full"),
    ],
)
def test_routed_experts_are_asked_for_as_the_option_says(
    option: Moe, facts: BackendFacts | None, asked: str
) -> None:
    assert routing_asked(option, facts) == asked


@pytest.mark.parametrize("facts", [ON, sglang(0, 5, 12), sglang(), sglang(0, 5, 23, dp_size=1)])
def test_delta_leaves_rows_out_where_the_backend_may_know_a_first_row(facts: BackendFacts) -> None:
    assert asks_for_delta("delta", facts)
    assert not asks_for_delta("full", facts)
    assert routing_problem("delta", facts) is None


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (VLLM, "vLLM knows no first row"),
        (sglang(0, 5, 11), "SGLang 0.5.11 gives them whatever is asked; upgrade to 0.5.12 or later"),
        (sglang(0, 5, 23, dp_size=4), "a turn may meet another of the server's caches (dp_size is 4)"),
        (
            sglang(0, 5, 23, disable_radix_cache=True),
            "the server keeps no prefix, so it chooses the experts of all tokens anew (disable_radix_cache)",
        ),
    ],
)
def test_delta_asks_for_all_rows_where_a_part_would_not_do_and_says_so(facts: BackendFacts, why: str) -> None:
    assert why_all_rows(facts) == why
    assert not asks_for_delta("delta", facts)
    assert routing_problem("delta", facts) == f"turnstile_moe=delta asks for all rows: {why}"
    assert routing_problem("full", facts) is None


def test_of_an_unknown_backend_all_rows_are_asked_for() -> None:
    assert not asks_for_delta("delta", None)


@pytest.mark.parametrize("option", ["auto", "full", "delta"])
def test_experts_that_a_server_does_not_report_are_a_problem_unless_nobody_wants_them(option: Moe) -> None:
    assert "--enable-return-routed-experts, or set turnstile_moe=off" in (routing_problem(option, OFF) or "")
    assert routing_problem("off", OFF) is None


@pytest.mark.parametrize("facts", [ON, sglang(0, 5, 23, config=EXPERTS), sglang(0, 5, 23), VLLM])
def test_a_server_that_reports_them_or_has_none_is_no_problem(facts: BackendFacts) -> None:
    assert routing_problem("auto", facts) is None
