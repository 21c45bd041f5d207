"""Which routed experts are asked for, and what of the backend stands in the way."""

from turnstile.addon.backends.asking import Moe
from turnstile.addon.backends.facts import BackendFacts, at_least
from turnstile.addon.capture.options import Moe as MoeOption

START_SINCE = (0, 5, 12)


def routing_asked(option: MoeOption, facts: BackendFacts | None) -> Moe:
    """Whether routed experts are asked for."""
    if option == "auto":
        return "full" if facts is not None and facts.routed_experts_on else "off"
    return "off" if option == "off" else "full"


def asks_for_delta(option: MoeOption, facts: BackendFacts | None) -> bool:
    """Whether rows that are known are left out. A backend that nothing is known of is asked for all."""
    return option == "delta" and facts is not None and why_all_rows(facts) is None


def why_all_rows(facts: BackendFacts) -> str | None:
    """Why this backend is asked for all rows always; None where a part of them is enough."""
    if facts.kind == "vllm":
        return "vLLM knows no first row"
    if facts.version is not None and not at_least(facts, *START_SINCE):
        return f"SGLang {facts.version_text} gives them whatever is asked; upgrade to 0.5.12 or later"
    if facts.server_info.get("disable_radix_cache") is True:
        return (
            "the server keeps no prefix, so it chooses the experts of all tokens anew (disable_radix_cache)"
        )
    if facts.server_info.get("dp_size") not in (None, 1):
        return f"a turn may meet another of the server's caches (dp_size is {facts.server_info['dp_size']})"
    return None


def routing_problem(option: MoeOption, facts: BackendFacts) -> str | None:
    """What the user should know of this backend; None when all is as it was asked for."""
    if option == "off":
        return None
    if facts.has_experts and facts.routed_experts_off:
        return (
            "the model is a mixture of experts and the server does not report the experts it chooses: start "
            "SGLang with --enable-return-routed-experts, or set turnstile_moe=off"
        )
    if option == "delta" and (why := why_all_rows(facts)):
        return f"turnstile_moe=delta asks for all rows: {why}"
    return None
