from turnstile.compiler.finding import Finding, Place

PLACE = Place("e1", None, "a.tslog", 64)


def test_a_place_makes_findings_about_itself() -> None:
    assert PLACE.error("undecodable", "no JSON") == Finding(
        "undecodable", "error", "e1", None, "a.tslog", 64, "no JSON"
    )
    assert PLACE.at_choice(2).warning("aborted", "early") == Finding(
        "aborted", "warning", "e1", 2, "a.tslog", 64, "early"
    )


def test_a_finding_is_written_with_every_field() -> None:
    assert PLACE.error("undecodable", "no JSON").as_record() == {
        "kind": "undecodable",
        "severity": "error",
        "exchange_id": "e1",
        "choice": None,
        "log": "a.tslog",
        "offset": 64,
        "message": "no JSON",
    }
