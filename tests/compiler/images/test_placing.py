import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.images import picture, processor_folder, sha256
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.images.image import Image, PromptImage, Unreadable
from turnstile.compiler.images.placing import image_placer
from turnstile.compiler.model_folders import ModelFolders

RED, BLUE = picture("red"), picture("blue", (100, 60))
BACKEND: Mapping[str, Any] = {"model_config": {"model_type": "qwen3_vl", "image_token_id": 9}}
HERE = Place("e1", 0, "a.tslog", 64)
PROMPT = [1, 9, 9, 9, 9, 2, 9, 9, 9, 9, 9, 9, 3]


def image(data: bytes) -> Image:
    return Image(sha256(data), "image/png", data)


def placed(
    images: Sequence[Image | Unreadable],
    prompt_ids: list[int],
    backend: Mapping[str, Any] | None = BACKEND,
    **options: Any,
) -> tuple[tuple[PromptImage, ...] | None, list[Finding]]:
    with image_placer(ModelFolders(**options)) as placer:
        return placer.place(images, np.array(prompt_ids, np.int32), backend, HERE)


def spans(found: tuple[tuple[PromptImage, ...] | None, list[Finding]]) -> list[tuple[str, tuple[int, int]]]:
    images, findings = found
    assert (images is not None, findings) == (True, [])
    return [(each.sha256, each.token_span) for each in images or ()]


def only_finding(found: tuple[tuple[PromptImage, ...] | None, list[Finding]]) -> Finding:
    images, (finding,) = found
    assert images is None
    return finding


def test_runs_of_placeholders_are_tied_to_the_images_in_order() -> None:
    assert spans(placed([image(RED), image(BLUE)], PROMPT)) == [
        (sha256(RED), (1, 4)),
        (sha256(BLUE), (6, 6)),
    ]


def test_without_images_a_placeholder_is_a_token() -> None:
    assert spans(placed([], PROMPT)) == []


def test_more_or_fewer_runs_than_images_leave_the_turn_out() -> None:
    for images in ([image(RED)], [image(RED)] * 3):
        finding = only_finding(placed(images, PROMPT))
        assert (finding.kind, finding.severity, finding.choice) == ("placeholder_mismatch", "error", 0)
        assert finding.message == (
            f"{len(images)} images in the request, and 2 runs of the placeholder token 9 in the prompt: "
            "nothing tells which belong together"
        )


def test_a_placeholder_that_nothing_tells_is_said_with_what_to_do() -> None:
    for backend in (None, {"model_config": None}, {"model_config": {"model_type": "qwen3"}}):
        finding = only_finding(placed([image(RED)], PROMPT, backend))
        assert finding.kind == "placeholder_mismatch"
        assert "--model" in finding.message


def test_a_backend_that_tells_the_models_type_tells_the_usual_token() -> None:
    backend = {"model_info": {"model_type": "qwen3_vl"}, "model_config": {"model_type": "qwen3_vl_text"}}
    assert spans(placed([image(RED)], [1, 151655], backend)) == [(sha256(RED), (1, 1))]


def test_a_model_that_is_named_counts_for_more_than_the_log(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_vl", "image_token_id": 2}))
    assert spans(placed([image(RED)], PROMPT, model=tmp_path)) == [(sha256(RED), (5, 1))]


def test_an_image_that_spells_no_bytes_leaves_the_turn_out() -> None:
    finding = only_finding(placed([image(RED), Unreadable("it is no base64")], PROMPT))
    assert (finding.kind, finding.message) == ("image_undecodable", "image 2 of 2: it is no base64")


def test_an_image_that_cannot_be_decoded_leaves_the_turn_out() -> None:
    finding = only_finding(placed([image(RED[:-30])], [1, 9]))
    assert finding.kind == "image_undecodable"
    assert "Pillow cannot decode it as the server must have" in finding.message


def test_an_image_that_is_too_large_leaves_the_turn_out() -> None:
    finding = only_finding(placed([image(RED)], [1, 9], max_pixels=1000))
    assert (finding.kind, finding.message) == (
        "image_too_large",
        "image 1 of 1: 64 x 64 are 4096 pixels, more than 1000; --max-image-pixels sets the limit",
    )


def test_a_processor_that_fits_says_nothing(tmp_path: Path) -> None:
    found = placed([image(RED), image(BLUE)], PROMPT, processor=processor_folder(tmp_path))
    assert len(spans(found)) == 2


def test_a_processor_with_another_count_is_an_error_and_leaves_the_turn(tmp_path: Path) -> None:
    prompt = [1, 9, 9, 9, 9, 2, *[9] * 8, 3]
    images, (finding,) = placed([image(RED), image(BLUE)], prompt, processor=processor_folder(tmp_path))
    assert [each.token_span for each in images or ()] == [(1, 4), (6, 8)]
    assert (finding.kind, finding.severity, finding.message) == (
        "image_token_count",
        "error",
        "image 2 of 2 has 8 placeholder tokens, the processor's grid gives 6; its sequence has no "
        "processed_images",
    )


def test_a_processor_that_cannot_be_held_against_the_prompt_is_said(tmp_path: Path) -> None:
    flat = picture(size=(2000, 1))
    images, (finding,) = placed([image(flat)], [1, 9], processor=processor_folder(tmp_path))
    assert images is not None
    assert (finding.kind, finding.severity, finding.message) == (
        "image_not_processed",
        "warning",
        "image 1 of 1 made the image processor fail with a ValueError; its sequence has no processed_images",
    )


def test_a_placeholder_that_was_sampled_before_is_a_token() -> None:
    backend = {"model_config": {"image_token_id": 9, "vision_start_token_id": 1}}
    assert spans(placed([image(RED)], [1, 9, 9, 2, 9, 3], backend)) == [(sha256(RED), (1, 2))]


def test_images_in_one_run_are_parted_by_a_processor_that_fills_it(tmp_path: Path) -> None:
    both, processor = [image(RED), image(BLUE)], processor_folder(tmp_path)
    assert spans(placed(both, [1, *[9] * 10, 2], processor=processor)) == [
        (sha256(RED), (1, 4)),
        (sha256(BLUE), (5, 6)),
    ]
    for prompt in ([1, *[9] * 11], [1, 9, 9, 9, 9]):
        assert placed(both, prompt, processor=processor)[0] is None
    assert placed(both, [1, *[9] * 10])[0] is None
