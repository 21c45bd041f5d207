"""What capture can do without: routed experts, live streams, token-in, token counts, images."""

from typing import Any

from turnstile.addon.backends.asking import ask_chat_live
from turnstile.addon.backends.facts import at_least
from turnstile.addon.backends.live import LiveRestorer
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.addon.backends.row_placement import UndecodableRouting
from turnstile.addon.tracelog.records import spliced
from turnstile.compiler.routing.decoding import decoded
from turnstile.doctor.chat_checks import Asked, first_choice, how_to_get_ids, prompt_ids_of
from turnstile.doctor.report import Check
from turnstile.doctor.server import CHAT, encoded

STREAM_IDS_SINCE = (0, 5, 20)
EXPERTS_FLAG = "--enable-return-routed-experts"
# 56 x 56 grey pixels, more than the least that the known models take.
_IMAGE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAAAAACN7WTCAAAAJElEQVR42u3LMQ"
    "0AAAwDoEqv9FpYdsNP+hRRFEVRFEVRFMWbAclXIFtsqkldAAAAAElFTkSuQmCC"
)


def routing_check(asked: Asked) -> list[Check]:
    """Whether routed experts come back, in the shape that the model has; none for a dense model."""
    name, config = "routed experts", asked.facts.model_config or {}
    if not asked.facts.routed_experts_on:
        if not asked.facts.has_experts:
            return []
        found = "the model has experts, the server does not tell which"
        return [Check(name, "off", found, f"start SGLang with {EXPERTS_FLAG}")]
    choice = first_choice(asked.chat(moe="full"))
    if choice is None or not choice.routed_experts:
        found = f"on at the server ({EXPERTS_FLAG}), and not in the reply"
        return [Check(name, "missing", found, how_to_get_ids(asked))]
    layers, top_k = config.get("num_hidden_layers"), config.get("num_experts_per_tok")
    return [_shape(choice, layers, top_k)]


def stream_check(asked: Asked) -> Check:
    """Whether a stream that is handed on as it comes tells all."""
    name, facts = "live streams", asked.facts
    buffered = "turnstile_streaming=buffered, the default, does without"
    if facts.kind != "sglang" or not at_least(facts, *STREAM_IDS_SINCE):
        return Check(name, "off", "streams tell no ids", f"SGLang 0.5.20 or later; {buffered}")
    body = encoded(asked.request(stream=True))
    asking = ask_chat_live(body, facts)
    answer = asked.server.post(CHAT, spliced(body, asking.splices))
    restorer = LiveRestorer(asking)
    restorer.feed(answer.body)
    restorer.end()
    if answer.status != 200 or not restorer.done_seen:
        return Check(name, "off", answer.problem if answer.status != 200 else "it had no end", buffered)
    if missing := restorer.missing:
        return Check(name, "off", f"lack {', '.join(missing)}", f"{_parser_flags()}; {buffered}")
    if not facts.reasoning_parser and not facts.tool_call_parser:
        found = "whole this time; without a parser SGLang loses the logprobs of tokens without text"
        return Check(name, "off", found, f"{_parser_flags()}; {buffered}")
    return Check(name, "ok", "whole: set turnstile_streaming=live or auto")


def token_in_check(asked: Asked, choice: ChoiceReading | None) -> Check:
    """Whether a prompt can be given in tokens (`input_ids`)."""
    name, ids = "token-in", prompt_ids_of(choice)
    if not ids:
        return Check(name, "unknown", "needs the prompt's ids")
    given = [*ids, *ids[-1:]]
    found = prompt_ids_of(first_choice(asked.chat(input_ids=given)))
    if found == given:
        return Check(name, "ok", "input_ids are taken as they are")
    return Check(name, "off", "input_ids are passed over", how_to_get_ids(asked))


def count_check(asked: Asked) -> Check:
    """Whether the tokens of a chat request can be counted before it is sent."""
    answer = asked.server.post("/tokenize", encoded(asked.request()))
    count = answer.json.get("count")
    if answer.status == 200 and isinstance(count, int):
        return Check("token counts", "ok", "max_trajectory_tokens can be kept exactly")
    advice = "SGLang 0.5.12 or later, asked directly; without, max_trajectory_tokens goes by earlier prompts"
    return Check("token counts", "off", f"/tokenize: {answer.problem}", advice)


def image_check(asked: Asked) -> list[Check]:
    """Whether a prompt with an image comes back in tokens; none for a model without eyes."""
    if asked.facts.model_info.get("has_image_understanding") is not True:
        return []
    content = [{"type": "image_url", "image_url": {"url": _IMAGE}}, {"type": "text", "text": "What is it?"}]
    answer = asked.chat(messages=[{"role": "user", "content": content}])
    ids = prompt_ids_of(first_choice(answer))
    if not ids:
        return [Check("images", "missing", answer.problem, how_to_get_ids(asked))]
    return [Check("images", "ok", f"a prompt of {len(ids)} tokens with one")]


def _shape(choice: ChoiceReading, layers: Any, top_k: Any) -> Check:
    name = "routed experts"
    told = next(iter(choice.routed_experts.values()))
    try:
        values = decoded(told, choice.routed_experts_dtype).size
    except UndecodableRouting as error:
        return Check(name, "missing", str(error), "upgrade SGLang")
    tokens = len(prompt_ids_of(choice)) + len(next(iter(choice.sampled_ids.values()), []))
    if not isinstance(layers, int) or not isinstance(top_k, int):
        found = f"{values} numbers for {tokens} tokens; their shape stands in a config.json that is not here"
        return Check(name, "ok", found, "name the model's folder to compile: --model DIR")
    rows, rest = divmod(values, layers * top_k)
    if rest or rows not in (tokens - 1, tokens):
        found = f"{values} numbers are not {tokens - 1} rows of {layers} layers x {top_k} experts"
        return Check(name, "missing", found, "upgrade SGLang to 0.5.13 or later")
    return Check(name, "ok", f"{rows} rows of {layers} layers x {top_k} experts for {tokens} tokens")


def _parser_flags() -> str:
    return "start SGLang with --reasoning-parser or --tool-call-parser"
