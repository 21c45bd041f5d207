from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.images import picture, processor_folder, sha256
from tests.support.sequences import sequence
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.images.pixels import MAX_PIXELS, rgb
from turnstile.compiler.images.processing import Processing
from turnstile.compiler.images.processor import ImageProcessor
from turnstile.compiler.sequence import TrainingSequence

RED, BLUE = picture("red"), picture("blue", (100, 60))


def placed(data: bytes, start: int, size: int) -> PromptImage:
    return PromptImage(sha256(data), "image/png", data, (start, size))


def with_images(*images: PromptImage) -> TrainingSequence:
    return sequence(images=images)


@pytest.fixture
def processor(tmp_path: Path) -> ImageProcessor:
    return ImageProcessor(processor_folder(tmp_path))


@pytest.fixture
def processing(processor: ImageProcessor) -> Iterator[Processing]:
    with Processing(processor, MAX_PIXELS) as opened:
        yield opened


def test_each_distinct_image_of_a_sequence_is_processed_once(
    processing: Processing, processor: ImageProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[tuple[int, int]]()
    tensors_of = processor.tensors
    monkeypatch.setattr(processor, "tensors", lambda image: made.append(image.size) or tensors_of(image))
    images = placed(RED, 0, 4), placed(BLUE, 9, 6), placed(RED, 20, 4)
    assert [processing.token_count(image, "qwen3_vl") for image in images] == [4, 6, 4]
    for _ in range(2):
        done = processing.on(with_images(*images))
        assert [each.sha256 for each in done.processed_images] == [sha256(RED), sha256(BLUE)]
    assert made == [(64, 64), (100, 60)]
    expected = tensors_of(rgb(BLUE, MAX_PIXELS))
    for name, tensor in done.processed_images[1].tensors.items():
        assert np.array_equal(tensor, expected[name])
    assert done.processed_images[0].processor == processor.identity


def test_a_sequence_has_its_images_processed_all_or_none(processing: Processing) -> None:
    images = placed(RED, 0, 4), placed(BLUE, 9, 8)
    assert [processing.token_count(image, "") for image in images] == [4, 6]
    assert processing.on(with_images(*images)).processed_images == ()
    assert processing.on(with_images()).processed_images == ()


def test_what_the_server_paints_over_is_not_processed(processing: Processing) -> None:
    clear = placed(picture((1, 2, 3, 4), mode="RGBA"), 0, 4)
    assert processing.token_count(clear, "qwen3_vl") == 4
    assert processing.token_count(placed(RED, 0, 4), "glm4v") == 4
    assert "is transparent or turned by EXIF" in str(processing.token_count(clear, "glm4v"))


def test_a_processor_that_fails_is_said(processing: Processing) -> None:
    flat = placed(picture(size=(2000, 1)), 0, 4)
    assert processing.token_count(flat, "") == "made the image processor fail with a ValueError"
    assert processing.on(with_images(flat)).processed_images == ()
