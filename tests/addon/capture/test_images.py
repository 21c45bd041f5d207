"""Images on their way through the real mitmdump: untouched, or fetched once and put in."""

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.backend import Backend
from tests.support.image_server import ImageServer
from tests.support.images import data_url, image_part, picture
from tests.support.mitmdump import Proxy, running_mitmdump
from turnstile.addon.tracelog.reader import log_paths

JSON = {"content-type": "application/json"}
RED, BLUE = picture("red"), picture("blue")


@pytest.fixture(scope="module")
def images() -> Iterator[ImageServer]:
    with ImageServer().running() as running:
        yield running


@pytest.fixture(scope="module")
def fetching(shared_backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    log = tmp_path_factory.mktemp("fetching") / "log"
    with running_mitmdump(shared_backend.url, log, fetch_images="127.0.0.1") as proxy:
        yield proxy


def request(*parts: Any, **fields: Any) -> bytes:
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": list(parts)}], **fields}
    ).encode()


def urls(body: Any) -> list[str]:
    return [part["image_url"]["url"] for message in body["messages"] for part in message["content"]]


@pytest.mark.parametrize(
    "part",
    [
        image_part(data_url(RED)),
        image_part(data_url(RED, "data:image/jpeg;name=x;BASE64,")),
        image_part(base64.b64encode(RED).decode()),
        {"type": "image_url", "image_url": data_url(RED)},
        image_part("\n".join(data_url(RED)[at : at + 76] for at in range(0, len(data_url(RED)), 76))),
    ],
)
def test_images_that_are_in_the_request_pass_untouched(proxy: Proxy, backend: Backend, part: Any) -> None:
    body = request(part, {"type": "text", "text": "http://a.example"})
    assert proxy.ask("POST", "/group/passing/v1/chat/completions", body, JSON).status == 200
    (received,) = backend.received
    assert received.json["messages"] == json.loads(body)["messages"]


def test_an_image_behind_an_address_is_fetched_put_in_and_recorded(
    fetching: Proxy, backend: Backend, images: ImageServer
) -> None:
    url = images.has("/red.png", RED, BLUE, content_type="image/png")
    body = request(image_part(url), image_part(data_url(BLUE)))
    answer = fetching.ask("POST", "/group/fetched/v1/chat/completions", body, JSON)
    assert answer.status == 200
    (received,) = backend.received
    assert urls(received.json) == [data_url(RED), data_url(BLUE)]
    exchange = fetching.exchange("fetched")
    assert (exchange.request, exchange.forwarded()) == (body, received.body)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://a.example/x.png", "remote_image"),
        ("file:///etc/passwd", "remote_image"),
        ("http://127.0.0.1:1/x.png", "image_not_fetched"),
    ],
)
def test_what_cannot_be_fetched_is_refused_and_recorded(
    fetching: Proxy, backend: Backend, url: str, code: str
) -> None:
    group = url.replace("/", "").replace(":", "_")
    answer = fetching.ask("POST", f"/group/{group}/v1/chat/completions", request(image_part(url)), JSON)
    assert (answer.status, answer.json["error"]["code"]) == (400, code)
    assert backend.received == []
    assert fetching.exchange(group).outcome == "refused"


def test_a_large_screenshot_that_is_sent_again_costs_little_memory_and_its_bytes_once(
    shared_backend: Backend, backend: Backend, tmp_path: Path
) -> None:
    screenshot = random.Random(5).randbytes(10_000_000)
    parts: list[Any] = [image_part(data_url(screenshot))]
    with running_mitmdump(shared_backend.url, tmp_path / "log") as proxy:
        for turn in range(6):
            body = request(*parts, *[{"type": "text", "text": "go on"}] * turn)
            assert proxy.ask("POST", "/group/g/v1/chat/completions", body, JSON).status == 200
            backend.received.clear()
        assert len(proxy.exchanges()) == 6
        status = Path(f"/proc/{proxy.process.pid}/status").read_text()
        peak_mb = int(status.partition("VmHWM:")[2].split()[0]) / 1000
    assert peak_mb < 400
    assert sum(path.stat().st_size for path in log_paths([tmp_path / "log"])) < 10_100_000


def test_a_request_that_is_refused_once_its_images_are_fetched_is_recorded_as_it_came(
    fetching: Proxy, backend: Backend, images: ImageServer
) -> None:
    limited = json.dumps({"group_id": "limited", "max_trajectory_tokens": 2}).encode()
    assert fetching.ask("POST", "/turnstile/groups", limited).status == 200
    body = request(image_part(images.has("/red.png", RED, content_type="image/png")), input_ids=[1, 2, 3])
    answer = fetching.ask("POST", "/group/limited/v1/chat/completions", body, JSON)
    assert (answer.status, answer.json["error"]["code"]) == (400, "context_length_exceeded")
    exchange = fetching.exchange("limited")
    assert (exchange.outcome, exchange.request, exchange.splices) == ("refused", body, ())


FAULTY = """
from turnstile.addon.capture import addon, chat_requests, fetched_images

def faulty(module, name):
    real = getattr(module, name)

    def function(*arguments):
        if any(name.encode() in each for each in arguments if isinstance(each, bytes)):
            raise RuntimeError("Prompt and Key")
        return real(*arguments)

    setattr(module, name, function)

def fail(*_):
    raise RuntimeError("Prompt and Key")

faulty(chat_requests, "named_images")
faulty(chat_requests, "resent_by")
fetched_images.fetch_image = fail
addons = [addon()]
"""


@pytest.fixture(scope="module")
def faulty(shared_backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    directory = tmp_path_factory.mktemp("faulty")
    script = directory / "faulty.py"
    script.write_text(FAULTY)
    with running_mitmdump(
        shared_backend.url, directory / "log", script=script, fetch_images="127.0.0.1"
    ) as proxy:
        yield proxy


@pytest.mark.parametrize("where", ["named_images", "fetch_image"])
def test_a_request_whose_images_cannot_be_dealt_with_is_refused_and_recorded(
    faulty: Proxy, backend: Backend, images: ImageServer, where: str
) -> None:
    body = request(image_part(images.url + "/red.png"), user=where)
    answer = faulty.ask("POST", f"/group/{where}/v1/chat/completions", body, JSON)
    assert (answer.status, answer.json["error"]["code"]) == (500, "turnstile_error")
    assert backend.received == []
    exchange = faulty.exchange(where)
    assert (exchange.outcome, exchange.request, exchange.status) == ("refused", body, None)
    assert exchange.error is not None
    assert exchange.error.startswith("Turnstile failed while putting images into a request: RuntimeError")


def test_what_fails_once_images_are_fetched_forwards_no_address(
    backend: Backend, images: ImageServer, tmp_path: Path
) -> None:
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY.replace("fetched_images.fetch_image = fail", ""))
    url = images.has("/red.png", RED, content_type="image/png")
    body = request(image_part(url), user="resent_by")
    options = {"fetch_images": "127.0.0.1"}
    with running_mitmdump(backend.url, tmp_path / "log", script=script, **options) as proxy:
        assert proxy.ask("POST", "/group/g/v1/chat/completions", body, JSON).status == 200
        exchange = proxy.exchange("g")
    (received,) = backend.received
    assert received.json == json.loads(request(image_part(data_url(RED)), user="resent_by"))
    assert (exchange.request, exchange.forwarded()) == (body, received.body)
    assert exchange.error == "Turnstile failed while adding fields to a request: RuntimeError"
