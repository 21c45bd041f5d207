from turnstile.addon.capture.keys import recorded_headers, without_key, without_own_headers

HOST = (b"Host", b"h")


def test_the_header_that_carries_the_secret_is_taken_off() -> None:
    assert without_key((HOST, (b"Authorization", b"Bearer s")), b"s") == (HOST,)
    assert without_key((HOST, (b"authorization", b"bearer  s ")), b"s") == (HOST,)
    assert without_key(((b"X-Turnstile-Key", b"s"), HOST), b"s") == (HOST,)


def test_the_backends_own_key_stays() -> None:
    backend_key = (b"Authorization", b"Bearer backend")
    assert without_key((backend_key, (b"X-Turnstile-Key", b"s")), b"s") == (backend_key,)


def test_a_wrong_key_is_no_key() -> None:
    for value in (b"Bearer S", b"Bearer", b"Basic s", b"s", b"Bearer s s", b"Bearer s\xff"):
        assert without_key((HOST, (b"Authorization", value)), b"s") is None
    assert without_key((HOST, (b"Cookie", b"s")), b"s") is None
    assert without_key((), b"s") is None


def test_own_headers_are_not_the_backends_business() -> None:
    fields = ((b"X-Turnstile-Group", b"g"), HOST, (b"x-turnstile-anything", b"x"))
    assert without_own_headers(fields) == (HOST,)


def test_recorded_headers_keep_order_case_and_every_byte_but_redacted_values() -> None:
    fields = ((b"Host", b"h"), (b"AUTHORIZATION", b"Bearer k"), (b"X", b"\xe9\xff"), (b"X", b"2"))
    assert recorded_headers(fields, {"authorization"}) == (
        ("Host", "h"),
        ("AUTHORIZATION", ""),
        ("X", "\u00e9\u00ff"),
        ("X", "2"),
    )


def test_the_secret_is_never_recorded_whatever_is_redacted() -> None:
    fields = ((b"Authorization", b"Bearer s3cret"), (b"X-Other", b"a=s3cret;b"))
    assert recorded_headers(fields, (), b"s3cret") == (("Authorization", ""), ("X-Other", ""))
