"""An exchange as turns: one for each choice whose facts are there and agree.

Each check says what it found as a finding. A choice that fails one is left out and spoils no other; where
the choices contradict each other all are left out. What is doubtful but true is kept under a flag:

aborted            the backend broke the answer off
undelivered        the harness was gone before it could be given the answer
logprobs_partial   some logprobs are unknown; those tokens count as context
media_left_out     video, sound or a file stands behind tokens of its prompt, and is not in the sequence
routing_untrusted  its routed experts cannot be believed, see turnstile.compiler.routing.reading
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from turnstile.addon.backends.reading import ChoiceReading
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.choice_turn import Computed, OfExchange, computed_for, turn_of
from turnstile.compiler.choices_agreement import prompt_conflicts, sum_findings
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.images.placing import ImagePlacer
from turnstile.compiler.prompt_texts import PromptTexts
from turnstile.compiler.replies import choices_of, may_have_computed, was_delivered
from turnstile.compiler.request_texts import ReadRequest, RequestTexts
from turnstile.compiler.routing.all_rows import with_all_rows
from turnstile.compiler.routing.reading import Asked, RoutingReader
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.sampling import sampling_of
from turnstile.compiler.turn import Turn, Wording
from turnstile.compiler.wording import Conversation


@dataclass(frozen=True, slots=True)
class Texts:
    """What the exchanges of one group said lately, so that what they repeat is read once."""

    requests: RequestTexts = field(default_factory=RequestTexts)
    prompts: PromptTexts = field(default_factory=PromptTexts)


@dataclass(frozen=True, slots=True)
class Readers:
    """What reads more than text, the same for all exchanges of a compilation."""

    routing: RoutingReader
    images: ImagePlacer | None  # None: the turns have no images


@dataclass(frozen=True, slots=True)
class ExchangeTurns:
    """What an exchange gives to its group."""

    turns: tuple[Turn, ...]  # by choice
    findings: tuple[Finding, ...]
    answers: tuple[Wording, ...]
    """For every assistant message of the request the wording of the turn whose answer it would be."""
    routing: Mapping[int, RoutedRows] = field(default_factory=dict)
    """By choice, where it is known; apart from the turns because it is large and soon joined."""
    images: tuple[Image | Unreadable, ...] = ()  # of the request, in order
    computed: tuple[Computed, ...] = ()


def turns_of(
    exchange: Exchange,
    log: str,
    offset: int,
    texts: Texts,
    versions_read: tuple[str, ...] = (),
    readers: "Readers | None" = None,
) -> ExchangeTurns:
    """The turns of an exchange, whose record lies at `offset` of `log`; `texts` are its group's.

    `versions_read` are the weight versions that were read around it, see WeightReadings.around. Without
    `readers` the turns have no images, and the log tells all that is known of the model.
    """
    place = Place(exchange.exchange_id, None, log, offset)
    try:
        return _turns_of(exchange, place, texts, versions_read, readers or Readers(RoutingReader(), None))
    except Exception as error:  # whatever one exchange holds, the others are compiled
        message = f"reading it failed with a {type(error).__name__}, which no exchange should bring about"
        return ExchangeTurns((), (place.error("undecodable", message),), (), computed=(Computed(),))


def _turns_of(
    exchange: Exchange, place: Place, texts: Texts, versions_read: Sequence[str], readers: Readers
) -> ExchangeTurns:
    readings, findings = choices_of(exchange, place)
    if not readings:
        unknown = (Computed(),) if may_have_computed(exchange) else ()
        return ExchangeTurns((), tuple(findings), (), computed=unknown)
    request, more = _request_of(exchange, texts.requests, place)
    findings += more + _not_compiled(request, place)
    if not was_delivered(exchange):
        findings.append(
            place.warning("undelivered", "the harness never got this answer; it is kept and flagged")
        )
    sampling, more = sampling_of(request.fields, place)
    findings += more
    said = request.conversation
    common = OfExchange(exchange, place, said, readers.images, sampling, versions_read)
    turns, rows, more = _turns_and_rows(readings, common, texts.prompts, readers.routing, request.fields)
    findings += more
    conflicts = prompt_conflicts(turns, place)
    if not any(finding.severity == "error" for finding in findings):  # else that may be why
        conflicts += sum_findings(readings, place)
    if conflicts:
        findings, turns, rows = findings + conflicts, [], {}
    if len(versions_read) > 1 and not all(turn.weight_spans for turn in turns):
        findings.append(place.warning("weight_version_moved", _moved(versions_read)))
    kept = {turn.choice for turn in turns}
    computed = tuple(
        computed_for(each, common, texts.prompts) for each in readings if each.choice not in kept
    )
    return ExchangeTurns(tuple(turns), tuple(findings), said.answers, rows, said.images, computed)


def _turns_and_rows(
    readings: Sequence[ChoiceReading],
    common: OfExchange,
    prompts: PromptTexts,
    routing: RoutingReader,
    fields: Mapping[str, Any],
) -> tuple[list[Turn], dict[int, RoutedRows], list[Finding]]:
    turns, rows, findings = list[Turn](), dict[int, RoutedRows](), list[Finding]()
    asked = Asked.by(fields)
    for reading in readings:
        turn, more = turn_of(reading, common, prompts)
        findings += more
        if turn is not None:
            exchange = common.exchange
            told = routing.read(reading, asked, turn, exchange.backend)
            told = with_all_rows(told, exchange.all_rows_reply, turn, routing, exchange.backend)
            findings += told.findings
            turns += [] if told.contradicts else [_flagged(turn, told.flags)]
            if told.rows is not None:
                rows[turn.choice] = told.rows
    return turns, rows, findings


def _flagged(turn: Turn, flags: tuple[str, ...]) -> Turn:
    return replace(turn, flags=turn.flags + flags) if flags else turn


def _moved(versions_read: Sequence[str]) -> str:
    versions = " to ".join(map(repr, versions_read))
    return (
        f"around the answer the backend's weight version went from {versions}, and the answer does not tell "
        "which of its tokens are of which; it is unknown"
    )


def _request_of(exchange: Exchange, texts: RequestTexts, place: Place) -> tuple[ReadRequest, list[Finding]]:
    """What the backend was sent; nothing, with a finding, when it is no JSON object."""
    try:
        return texts.read(exchange.forwarded()), []
    except ValueError:
        message = "the request is no JSON object; its sampling parameters are unknown"
        return ReadRequest({}, Conversation()), [place.warning("undecodable", message)]


def _not_compiled(request: ReadRequest, place: Place) -> list[Finding]:
    """One finding when there is more in the exchange than text and images."""
    if not request.conversation.other_media:
        return []
    message = (
        "holds video, sound or another part that is neither text nor image, which this version does not "
        "compile; its tokens are compiled as text, flagged media_left_out"
    )
    return [place.warning("not_compiled", message)]
