from typing import Any

import pytest

from turnstile.addon.backends.reading import ChoiceReading, PromptText
from turnstile.compiler.agreement import count_findings, prompt_ids_of, sampled_ids_of
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.prompt_texts import PromptTexts

PLACE = Place("e1", 0, "a.tslog", 64)
LIMIT = 1000
NOT_THERE = (
    "the reply holds no sampled ids; the backend was not asked for them, is too old to give them, "
    "or something on the way dropped them"
)


def reading(
    prompt_ids: dict[str, Any] | None = None, sampled_ids: dict[str, Any] | None = None
) -> ChoiceReading:
    return ChoiceReading(
        choice=0,
        prompt_ids=prompt_ids or {},
        sampled_ids=sampled_ids or {},
        logprobs={},
        prompt_token_counts={},
        completion_token_counts={},
        completion_token_sums={},
        finish_reason="stop",
        weight_versions={},
        weight_spans={},
        cached_tokens=None,
        num_retractions=None,
        message=None,
    )


def said(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.kind, finding.severity, finding.message) for finding in findings]


def test_sources_that_agree_give_the_ids() -> None:
    found = {"prompt_token_ids": PromptText(b"[1,2,3]"), "sglext.input_ids": [1, 2, 3]}
    ids_T, findings = prompt_ids_of(reading(found), PromptTexts(), LIMIT, PLACE)
    assert ids_T is not None
    assert (ids_T.tolist(), findings) == ([1, 2, 3], [])


@pytest.mark.parametrize(
    ("found", "kind", "message"),
    [
        ({"a": [1, 2], "b": [1, 3]}, "token_source_conflict", "sampled id 1 is 2 in a, 3 in b"),
        ({"a": [1, 2, 3], "b": [1, 2]}, "token_source_conflict", "3 sampled ids in a, 2 in b"),
        ({"a": [1, 2.0]}, "token_type", "sampled ids in a: id 1 of 2 is the number 2.0, expected an integer"),
        ({"a": "1,2"}, "token_type", "sampled ids in a: found a str, expected a list of integers"),
        ({"a": [-1, 2]}, "token_out_of_range", "sampled ids in a: id 0 is -1, expected 0 to 999"),
        ({"a": [1, 1000]}, "token_out_of_range", "sampled ids in a: id 1 is 1000, expected 0 to 999"),
        ({}, "missing_token_ids", NOT_THERE),
    ],
)
def test_ids_that_are_not_sure_are_none(found: dict[str, Any], kind: str, message: str) -> None:
    ids_T, findings = sampled_ids_of(reading(sampled_ids=found), LIMIT, PLACE)
    assert (ids_T, said(findings)) == (None, [(kind, "error", message)])


def test_every_source_is_judged() -> None:
    _, findings = sampled_ids_of(reading(sampled_ids={"a": [True], "b": [-1]}), LIMIT, PLACE)
    assert [finding.kind for finding in findings] == ["token_type", "token_out_of_range"]


def test_a_prompt_of_digits_beyond_the_vocabulary_is_refused() -> None:
    found = {"prompt_token_ids": PromptText(b"[5,1234567890123]")}
    ids_T, findings = prompt_ids_of(reading(found), PromptTexts(), LIMIT, PLACE)
    message = "prompt ids in prompt_token_ids: id 1 is 1234567890123, expected 0 to 2147483647"
    assert (ids_T, said(findings)) == (None, [("token_out_of_range", "error", message)])


def test_an_empty_prompt_is_missing() -> None:
    ids_T, findings = prompt_ids_of(reading({"prompt_token_ids": []}), PromptTexts(), LIMIT, PLACE)
    assert (ids_T, said(findings)) == (
        None,
        [("missing_token_ids", "error", "the list of prompt ids is empty")],
    )


def test_no_sampled_ids_are_known_to_be_none() -> None:
    ids_T, findings = sampled_ids_of(reading(sampled_ids={"a": []}), LIMIT, PLACE)
    assert ids_T is not None
    assert (len(ids_T), findings) == (0, [])


def test_counts_that_agree_or_say_nothing_are_no_finding() -> None:
    assert count_findings("sampled", 3, {"a": 3, "b": None}, PLACE) == []


def test_every_other_count_is_a_finding() -> None:
    claims = {"a": 2, "b": "3", "c": True, "d": 3.0}
    assert said(count_findings("sampled", 3, claims, PLACE)) == [
        ("token_count_mismatch", "error", "3 sampled ids, but a says 2"),
        ("token_count_mismatch", "error", "3 sampled ids, but b says a str"),
        ("token_count_mismatch", "error", "3 sampled ids, but c says True"),
        ("token_count_mismatch", "error", "3 sampled ids, but d says 3.0"),
    ]
