"""Checks what must hold of a trace log and of a file of sequences; names the first thing that does not.

Of logs: every record can be read and has its checksums, every blob its SHA-256, every body can be rebuilt,
the pieces of a stream are its reply, and an exchange id stands for one exchange. Of sequences: what the
README's table promises of each field (see `verify_sequence`), each choice of an exchange in one sequence
only, the sequences of a group side by side, and parents that share the tokens that they are said to. Where
both are named, every call of a sequence must stand in the logs as in the sequence (`verify_against_logs`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from turnstile.addon.tracelog.errors import LogCorruptError
from turnstile.addon.tracelog.reader import log_paths
from turnstile.addon.tracelog.records import Exchange, content_decoded
from turnstile.compiler.errors import InvariantBroken
from turnstile.compiler.export import is_compiled, read_sequences
from turnstile.compiler.finding import FINDINGS_SUFFIX
from turnstile.compiler.images.agreement import agreed_size
from turnstile.compiler.readable_logs import Unreadable, open_readable
from turnstile.compiler.replay import Replay
from turnstile.compiler.sequence import Call, TrainingSequence
from turnstile.compiler.token_tree import equal_front
from turnstile.compiler.verify_against_logs import verify_against_logs
from turnstile.compiler.verify_sequence import broken_promise


@dataclass(frozen=True, slots=True)
class Verified:
    """How much was looked at."""

    logs: int
    exchanges: int
    files: int  # of sequences
    sequences: int


def verify(paths: Sequence[Path]) -> Verified:
    """Checks logs, directories of logs and files of sequences, and these against the logs if both are named.

    Raises InvariantBroken at the first thing that does not hold; LogFormatError and SequenceFileError for
    what is neither.
    """
    compiled = [path for path in paths if is_compiled(path)]
    logs = log_paths([path for path in paths if path not in compiled])
    # a pattern such as out* also names the findings beside a compiled file
    files = [path for path in compiled if not path.name.endswith(FINDINGS_SUFFIX)] or compiled
    exchange_ids: dict[str, Path] = {}
    for log in logs:
        _verify_log(log, exchange_ids)
    sequences = sum(_verify_file(file) for file in files)
    if logs and files:
        with Replay(logs) as replay:
            for file in files:
                verify_against_logs(read_sequences(file), file, replay)
    return Verified(len(logs), len(exchange_ids), len(files), sequences)


def _verify_log(path: Path, exchange_ids: dict[str, Path]) -> None:
    """Checks one log and adds its exchange ids, which no log before may have."""
    reader = open_readable(path)
    if isinstance(reader, Unreadable):
        raise InvariantBroken(f"{path}: {reader.kind} at offset {reader.offset}: {reader.reason}")
    try:
        with reader:
            if reader.damage is not None:
                raise InvariantBroken(f"{path}: {reader.damage.kind}: {reader.damage.message}")
            reader.check()
            for offset, exchange in reader.exchanges():
                place = f"{path}: exchange {exchange.exchange_id} at offset {offset}"
                if exchange.exchange_id in exchange_ids:
                    raise InvariantBroken(f"{place} is also in {exchange_ids[exchange.exchange_id]}")
                exchange_ids[exchange.exchange_id] = path
                if fault := _forwarding_fault(exchange):
                    raise InvariantBroken(f"{place}: the forwarded body cannot be rebuilt: {fault}")
                if fault := _arrivals_fault(exchange):
                    raise InvariantBroken(f"{place}: {fault}")
    except LogCorruptError as error:
        raise InvariantBroken(f"{path}: log_corrupt at offset {error.offset}: {error.reason}") from error
    except (AttributeError, TypeError, ValueError) as error:  # checksums do not tell what a field holds
        message = f"{path}: a record does not hold what it should: {error!r}"
        raise InvariantBroken(message) from error


def _forwarding_fault(exchange: Exchange) -> str:
    """What keeps the splices from turning the harness's body into the forwarded one; "" for nothing."""
    at = 0
    for splice in exchange.splices:
        if not at <= splice.start <= splice.end:
            return f"a splice from {splice.start} to {splice.end} follows one that ends at {at}"
        at = splice.end
    if not exchange.splices:
        return ""
    try:
        size = len(content_decoded(exchange.request, exchange.request_headers))
    except ValueError as error:
        return str(error)
    return "" if at <= size else f"a splice ends at {at}, the body at {size}"


def _arrivals_fault(exchange: Exchange) -> str:
    """What keeps the pieces that a stream came in from being its reply, in order; "" for nothing."""
    ends = [0, *(arrival.end for arrival in exchange.arrivals)]
    times_s = [0.0, *(arrival.after_s for arrival in exchange.arrivals)]
    if sorted(ends) != ends or sorted(times_s) != times_s:
        return "the pieces of the stream are not in the order in which they came"
    if exchange.arrivals and ends[-1] != len(exchange.reply):
        return f"the pieces of the stream have {ends[-1]} bytes, the reply has {len(exchange.reply)}"
    return ""


def _verify_file(path: Path) -> int:
    """Checks one file of sequences and gives their number."""
    ids: set[str] = set()
    calls: set[Call] = set()
    groups: set[str] = set()
    numbered = enumerate(read_sequences(path), 1)
    for group_id, members in groupby(numbered, key=lambda item: item[1].group_id):
        group: dict[str, TrainingSequence] = {}
        for number, sequence in members:
            fault = (
                broken_promise(sequence)
                or ("its group stands in two places" if group_id in groups else "")
                or (
                    f"an earlier sequence is {sequence.sequence_id} too"
                    if sequence.sequence_id in ids
                    else ""
                )
                or _call_fault(sequence, calls)
                or _parent_fault(sequence, group)
            )
            if fault:
                raise InvariantBroken(f"{path}: sequence {number} ({sequence.sequence_id}): {fault}")
            ids.add(sequence.sequence_id)
            calls.update(sequence.exchanges)
            group[sequence.sequence_id] = sequence
        groups.add(group_id)
    return len(ids)


def _call_fault(sequence: TrainingSequence, earlier: set[Call]) -> str:
    for call in sequence.exchanges:
        if call in earlier:
            return f"choice {call.choice} of {call.exchange_id} is in an earlier sequence as well"
    return ""


def _parent_fault(sequence: TrainingSequence, group: dict[str, TrainingSequence]) -> str:
    if sequence.parent is None:
        return ""
    parent, shared = group.get(sequence.parent.sequence_id), sequence.parent.shared_tokens
    if parent is None:
        return f"its parent {sequence.parent.sequence_id} does not stand before it in its group"
    found = equal_front(parent.tokens, sequence.tokens)
    found = agreed_size(parent.images, sequence.images, found)
    if not found or shared != found:
        return f"shares {found} tokens with {sequence.parent.sequence_id}, not the {shared} that are said"
    return ""
