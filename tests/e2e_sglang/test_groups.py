"""Groups, their limits, and the doctor, against a real server."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

import turnstile
from tests.e2e_sglang.server import sglang
from turnstile.doctor import examine

QUESTION: Any = {"role": "user", "content": "Name a colour."}
ON: Any = {"extra_body": {"ignore_eos": True}}  # goes on until it may not


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with sglang("dense") as url:
        yield url


def test_a_trajectory_is_as_long_as_its_group_allows_and_no_longer(backend: str) -> None:
    with turnstile.Proxy(backend) as proxy:
        group_id = proxy.create_group(max_trajectory_tokens=40)
        with openai.OpenAI(base_url=proxy.base_url(group_id), api_key="none", max_retries=0) as client:
            model = client.models.list().data[0].id
            answer = client.chat.completions.create(model=model, messages=[QUESTION], **ON)
            assert answer.usage is not None
            assert answer.usage.total_tokens == 40
            with pytest.raises(openai.BadRequestError) as caught:
                client.chat.completions.create(model=model, messages=[QUESTION] * 9, **ON)
        assert caught.value.code == "context_length_exceeded"
        (sequence,) = proxy.get_training_sequences(group_id)
        assert len(sequence.tokens) == 40


def test_the_doctor_finds_all_that_capture_needs(backend: str) -> None:
    report = examine(backend)
    assert report.complete
    statuses = {check.name: check.status for check in report.checks}
    assert {name: statuses[name] for name in ("live streams", "token-in", "token counts")} == {
        "live streams": "ok",
        "token-in": "ok",
        "token counts": "ok",
    }
