from turnstile.addon.tracelog.bases import MAX_DEPTH, PER_ROLLOUT, Base, Bases
from turnstile.addon.tracelog.fingerprints import fingerprint
from turnstile.addon.tracelog.growing_spans import growing_spans, remembered

KEY = ("g", None)


def base(offset: int, request: bytes, depth: int = 0, reply: bytes = b"") -> Base:
    return Base(offset, depth, fingerprint(request), remembered(growing_spans(reply)), b"d" * 1000)


def best(bases: Bases, request: bytes, key: tuple[str, str | None] = KEY) -> tuple[int | None, int]:
    found, shared = bases.best(key, fingerprint(request), request)
    return (found.offset if found else None), shared


def test_nothing_remembered_gives_no_base() -> None:
    assert best(Bases(), b"abc") == (None, 0)


def test_base_that_shares_most_is_chosen() -> None:
    bases = Bases()
    for offset, request in enumerate((b"system A " * 300, b"system B " * 300), start=1):
        bases.add(KEY, base(offset, request), None, 0)
    assert best(bases, b"system A " * 300 + b"more") == (1, 2700)


def test_other_groups_and_rollouts_are_no_bases() -> None:
    bases = Bases()
    bases.add(("g", "r1"), base(1, b"abc"), None, 0)
    assert best(bases, b"abc", ("g", "r2")) == (None, 0)
    assert best(bases, b"abc", ("h", "r1")) == (None, 0)


def test_exchange_takes_the_place_of_the_one_it_repeats() -> None:
    bases = Bases()
    first, second = base(1, b"a" * 5000), base(2, b"a" * 5000 + b"b" * 5000)
    bases.add(KEY, first, None, 0)
    bases.add(KEY, second, first, 5000)
    assert best(bases, b"a" * 5000 + b"c") == (2, 4096)


def test_a_short_request_does_not_drive_out_another_one_of_the_same_frame() -> None:
    bases = Bases()
    first, second = base(1, b'{"messages":["one question"]}'), base(2, b'{"messages":["another"]}')
    bases.add(KEY, first, None, 0)
    bases.add(KEY, second, first, 14)
    assert best(bases, b'{"messages":["one question","its answer"]}') == (1, 27)


def test_too_deep_a_chain_is_not_prolonged() -> None:
    bases = Bases()
    bases.add(KEY, base(1, b"abc", depth=MAX_DEPTH), None, 0)
    assert best(bases, b"abc") == (None, 0)


def test_oldest_of_a_key_goes_first() -> None:
    bases = Bases()
    for offset in range(PER_ROLLOUT + 1):
        bases.add(KEY, base(offset, b"%04d" % offset * 500), None, 0)
    assert best(bases, b"%04d" % 0 * 500)[1] < 10
    assert best(bases, b"%04d" % 1 * 500) == (1, 2000)


def test_memory_is_bounded_over_all_keys() -> None:
    bases = Bases(memory=5000)
    for offset, group in enumerate("abcdefgh"):
        bases.add((group, None), base(offset, b"abc"), None, 0)
    kept = [group for group in "abcdefgh" if best(bases, b"abc", (group, None))[0] is not None]
    assert kept == ["f", "g", "h"]


def test_the_latest_replies_are_held_within_their_bound() -> None:
    reply = b'{"routed_experts":"' + b"AAAA" * 100_000 + b'"}'
    bases = Bases(replies=3 * len(reply))
    made = [base(offset, b"%d" % offset * 500, reply=reply) for offset in range(1, 7)]
    for each in made[:5]:
        bases.add(KEY, each, None, 0)
    assert [each.held > 0 for each in made] == [False, False, True, True, True, True]
    bases.add(KEY, made[5], made[4], 500)  # takes its place
    assert [each.held > 0 for each in made[:4]] == [False, False, True, True]
    bases.clear()
    for each in made[2:5]:
        bases.add(KEY, each, None, 0)
    assert all(each.held for each in made[2:5])


def test_a_reply_beyond_the_bound_is_not_held() -> None:
    reply = b'{"routed_experts":"' + b"AAAA" * 100_000 + b'"}'
    bases, large = Bases(replies=len(reply) - 1), base(1, b"abc", reply=reply)
    bases.add(KEY, large, None, 0)
    assert large.held == 0
