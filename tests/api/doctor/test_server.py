import json

from turnstile.doctor.server import Answer


def problem(message: str) -> str:
    return Answer(400, json.dumps({"error": {"message": message}}).encode()).problem


def test_an_error_is_told_in_the_servers_words() -> None:
    assert problem("x" * 200) == "status 400: " + "x" * 200


def test_a_long_one_ends_where_it_is_cut() -> None:
    assert problem("x" * 201) == "status 400: " + "x" * 199 + "…"
