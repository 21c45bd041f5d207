"""Vision models on a real server: placeholders, grids and pixels against the original files."""

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from PIL import Image as Pillow

from tests.e2e_sglang.server import sglang
from tests.support.images import data_url, image_part, sha256
from turnstile import TrainingSequence, compile_logs
from turnstile.mitmdump_process import RunningProxy, running_proxy

ROLLOUTS, TURNS = 10, 3
SIZES = ((64, 64), (100, 60), (129, 77), (48, 200))
KINDS = (("PNG", "RGB"), ("PNG", "RGBA"), ("JPEG", "RGB"), ("PNG", "L"))


@pytest.fixture(scope="module", params=["vl3", "vl25"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with sglang(request.param) as url:
        yield url


@pytest.fixture
def proxy(backend: str, tmp_path: Path) -> Iterator[RunningProxy]:
    with running_proxy(backend, tmp_path / "log") as running:
        yield running


def screenshot(seed: int, folder: Path) -> bytes:
    """A file with noise in it, of one of some kinds and sizes; no two seeds give the same."""
    (kind, mode), (width, height) = KINDS[seed % len(KINDS)], SIZES[seed % len(SIZES)]
    bands = len(mode)
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, bands), np.uint8)
    path = folder / f"{seed}.{kind.lower()}"
    Pillow.fromarray(noise if bands > 1 else noise[..., 0]).save(path, kind)
    return path.read_bytes()


def run_rollout(proxy: RunningProxy, name: str, shots: list[bytes]) -> None:
    """Shows one screenshot a turn and resends all before; the answers are digits, which survive."""
    with openai.OpenAI(
        base_url=f"http://{proxy.address}/group/g/rollout/{name}/v1", api_key="none"
    ) as client:
        model, messages = client.models.list().data[0].id, list[Any]()
        for shot in shots:
            parts = [image_part(data_url(shot)), {"type": "text", "text": "Which button?"}]
            messages.append({"role": "user", "content": parts})
            ends = {"regex": "[0-9]{3}", "logit_bias": {"151645": 20}}
            answer = client.chat.completions.create(
                model=model, messages=messages, max_tokens=8, extra_body=ends
            )
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})


def model_path(sequences: list[TrainingSequence], log: Path) -> Path:
    from turnstile.addon.tracelog.reader import log_paths, open_log

    with open_log(log_paths([log])[0]) as opened:
        _, exchange = next(iter(opened.exchanges()))
    assert exchange.backend is not None
    return Path(exchange.backend["model_path"])


def test_placeholders_grids_and_pixels_are_those_of_the_files(proxy: RunningProxy, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    shots = [screenshot(seed, files) for seed in range(ROLLOUTS * TURNS)]
    random.Random(1).shuffle(shots)
    rollouts = {f"r{at}": shots[at * TURNS : (at + 1) * TURNS] for at in range(ROLLOUTS)}
    rollouts["again"] = [shots[0], shots[0], shots[1]]  # two rollouts share pictures, one shows one twice
    for name, shown in rollouts.items():
        run_rollout(proxy, name, shown)
    proxy.flush()
    processor = model_path([], tmp_path / "log")
    output = tmp_path / "out.tseq"
    arguments = ["compile", tmp_path / "log", "-o", output, "--strict", "--image-processor", processor]
    for command in (arguments, ["verify", tmp_path / "log", output]):
        subprocess.run([Path(sys.executable).with_name("turnstile"), *command], check=True)
    compiled = compile_logs(tmp_path / "log", image_processor=processor)
    assert compiled.findings == ()
    found = {sequence.rollout_id: sequence for sequence in compiled}
    assert len(compiled) == len(rollouts)
    for name, shown in rollouts.items():
        check(found[name], shown, processor)


def check(sequence: TrainingSequence, shown: list[bytes], processor: Path) -> None:
    """Each picture stands behind its own tokens, and its tensors are what the processor makes of its file."""
    from transformers import AutoImageProcessor

    assert len(sequence.exchanges) == TURNS
    assert [image.sha256 for image in sequence.images] == [sha256(data) for data in shown]
    assert all(sum(one.token_span) < other.token_span[0] for one, other in pairwise(sequence.images))
    own = AutoImageProcessor.from_pretrained(str(processor))
    made = {each.sha256: each.tensors for each in sequence.processed_images}
    for image, data in zip(sequence.images, shown, strict=True):
        assert image.data == data
        start, size = image.token_span
        assert len(set(sequence.tokens[start : start + size].tolist())) == 1
        with Pillow.open(_file(data)) as opened:
            expected = own(images=[opened.convert("RGB")], return_tensors="np")
        tensors = made[image.sha256]
        assert np.array_equal(tensors["image_grid_thw"], expected["image_grid_thw"])
        assert np.abs(np.asarray(tensors["pixel_values"]) - expected["pixel_values"]).max() <= 1e-6
        assert int(expected["image_grid_thw"].prod()) // own.merge_size**2 == size


def _file(data: bytes) -> Any:
    import io

    return io.BytesIO(data)
