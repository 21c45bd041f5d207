"""One choice of an exchange as a turn, where everything about its ids agrees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstile.addon.backends.facts import vocab_size_in
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.agreement import Ids, count_findings, prompt_ids_of, sampled_ids_of
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.images.placing import ImagePlacer
from turnstile.compiler.logprobs import logprobs_of
from turnstile.compiler.prompt_texts import PromptTexts
from turnstile.compiler.replies import was_delivered
from turnstile.compiler.token_ids import INT32_LIMIT
from turnstile.compiler.turn import Turn, Wording
from turnstile.compiler.weights import weight_spans_of
from turnstile.compiler.wording import Conversation, reply_digest


@dataclass(frozen=True, slots=True)
class Computed:
    """What the backend computed for an answer that is no turn: a prompt's tokens, but for the first ones."""

    prompt_ids: Ids | None = None  # None: unknown
    at_hand: int = 0  # so many of its first tokens were certainly not computed anew


@dataclass(frozen=True, slots=True)
class OfExchange:
    """What all choices of an exchange share."""

    exchange: Exchange
    place: Place
    said: Conversation
    placer: ImagePlacer | None
    sampling: Mapping[str, Any]
    versions_read: Sequence[str]  # around it

    @property
    def version_read(self) -> str | None:
        """What was read before and after it, where that is the same."""
        return self.versions_read[0] if len(self.versions_read) == 1 else None

    @property
    def id_limit(self) -> int:
        """Every token id is below it."""
        return vocab_size_in(self.exchange.backend or {}) or INT32_LIMIT


def turn_of(
    reading: ChoiceReading, common: OfExchange, prompts: PromptTexts
) -> tuple[Turn | None, list[Finding]]:
    """The turn of one choice when everything about its ids agrees."""
    place = common.place.at_choice(reading.choice)
    aborted = reading.finish_reason == "abort"
    sampled = (reading.sampled_ids, reading.logprobs, reading.completion_token_counts)
    if aborted and not any(found for place_ in sampled for found in place_.values()):
        return None, [place.warning("aborted", "the backend gave up before it had sampled anything")]
    prompt_ids, findings = prompt_ids_of(reading, prompts, common.id_limit, place)
    sampled_ids, more = sampled_ids_of(reading, common.id_limit, place)
    findings += more
    if prompt_ids is not None:
        claims = reading.prompt_token_counts
        # an abort from the waiting queue reports zero prompt tokens (SGLang, tokenizer_manager.py)
        told = {source: claim for source, claim in claims.items() if claim != 0 or not aborted}
        findings += count_findings("prompt", len(prompt_ids), told, place)
    if sampled_ids is not None:
        findings += count_findings("sampled", len(sampled_ids), reading.completion_token_counts, place)
    if findings or prompt_ids is None or sampled_ids is None:
        return None, findings
    if not len(sampled_ids):
        return None, [place.warning("nothing_sampled", "the answer holds no sampled token")]
    images, findings = _placed(common, prompt_ids, place)
    if images is None:
        return None, findings
    turn, more = _with_logprobs(reading, common, prompt_ids, sampled_ids, images)
    return turn, findings + more


def computed_for(reading: ChoiceReading, common: OfExchange, prompts: PromptTexts) -> Computed:
    """What was computed for a choice that is left out, as far as its ids can be read."""
    prompt_ids, _ = prompt_ids_of(reading, prompts, common.id_limit, common.place)
    counts = reading.prompt_token_counts
    if prompt_ids is None or count_findings("prompt", len(prompt_ids), counts, common.place):
        return Computed()
    at_hand = _believed(reading.cached_tokens, len(prompt_ids)) or 0
    return Computed(prompt_ids, 0 if reading.num_retractions else at_hand)


def _placed(
    common: OfExchange, prompt_ids: Ids, place: Place
) -> tuple[tuple[PromptImage, ...] | None, list[Finding]]:
    if common.placer is None:
        return (), []
    return common.placer.place(common.said.images, prompt_ids, common.exchange.backend, place)


def _with_logprobs(
    reading: ChoiceReading,
    common: OfExchange,
    prompt_ids: Ids,
    sampled_ids: Ids,
    images: tuple[PromptImage, ...],
) -> tuple[Turn | None, list[Finding]]:
    """The turn, once its ids are known to be right; None when none of its logprobs is known."""
    place = common.place.at_choice(reading.choice)
    logprobs, findings = logprobs_of(reading.logprobs, len(sampled_ids), place)
    if logprobs is None:
        return None, findings
    is_partial = bool(findings)
    told = reading.weight_versions, reading.weight_spans
    spans, more = weight_spans_of(*told, len(sampled_ids), place, common.versions_read)
    findings += more
    flags = []
    if reading.finish_reason == "abort":
        flags.append("aborted")
        findings.append(place.warning("aborted", f"the backend gave up after {len(sampled_ids)} sampled ids"))
    if is_partial:
        flags.append("logprobs_partial")
    if not was_delivered(common.exchange):
        flags.append("undelivered")
    if common.said.other_media:
        flags.append("media_left_out")
    exchange = common.exchange
    turn = Turn(
        exchange_id=exchange.exchange_id,
        choice=reading.choice,
        group_id=exchange.group_id,
        rollout_id=exchange.rollout_id,
        started_at=exchange.started_at,
        log=place.log,
        offset=place.offset,
        prompt_ids=prompt_ids,
        sampled_ids=sampled_ids,
        logprobs=logprobs,
        finish_reason=reading.finish_reason,
        weight_spans=spans,
        version_read=None if spans else common.version_read,
        cached_tokens=_believed(reading.cached_tokens, len(prompt_ids)),
        num_retractions=reading.num_retractions,
        images=images,
        other_media=common.said.other_media,
        sampling=common.sampling,
        flags=tuple(flags),
        wording=Wording(common.said.digest, reply_digest(reading.message or {})),
    )
    return turn, findings


def _believed(cached_tokens: int | None, prompt_size: int) -> int | None:
    """A number of cached tokens that can be one."""
    return cached_tokens if cached_tokens is not None and 0 <= cached_tokens <= prompt_size else None
