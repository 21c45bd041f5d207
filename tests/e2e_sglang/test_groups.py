"""Groups, their limits, and the doctor, against a real server."""

import os
from collections.abc import Iterator
from typing import Any

import openai
import pytest

import turnstile
from tests.docs.markdown import code_blocks
from tests.e2e_sglang.server import sglang
from tests.house.link_tree import ROOT
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


def test_the_program_of_the_readme_gets_what_the_server_sampled(backend: str) -> None:
    _, program, _ = code_blocks(ROOT / "README.md", "python")
    client = """...  # an OpenAI client at f"http://{proxy.addr}/group/{group_id}/v1\""""
    assert client in program
    program = program.replace(client, 'ask(f"http://{proxy.addr}/group/{group_id}/v1")')
    names: dict[str, Any] = {"ask": asked_once}
    exec(program.replace("http://localhost:30000", backend), names)
    (sequence,) = names["sequences"]
    assert sequence.group_id == names["group_id"]
    assert sequence.loss_mask.sum() == 8


def asked_once(base_url: str) -> None:
    """Eight tokens of an answer."""
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        model = client.models.list().data[0].id
        client.chat.completions.create(model=model, messages=[QUESTION], max_tokens=8, **ON)


def test_the_doctor_finds_all_that_capture_needs(backend: str) -> None:
    assert statuses(backend) == {"live streams": "ok", "token-in": "ok", "token counts": "ok"}


@pytest.mark.skipif("TURNSTILE_E2E_URL" in os.environ, reason="of servers that are started here")
@pytest.mark.parametrize(
    ("kind", "parser", "found"),
    [
        ("dense", False, {"live streams": "off"}),
        ("moe", True, {"routed experts": "ok"}),
        ("vl3", True, {"images": "ok"}),
    ],
)
def test_the_doctor_tells_servers_apart(kind: str, parser: bool, found: dict[str, str]) -> None:
    with sglang(kind, parser=parser) as url:
        assert statuses(url).items() >= found.items()


def statuses(backend: str) -> dict[str, str]:
    """What a server has beside what every check of a capture needs."""
    report = examine(backend)
    assert report.complete
    optional = ("live streams", "token-in", "token counts", "routed experts", "images")
    return {check.name: check.status for check in report.checks if check.name in optional}
