import numpy as np
import pytest

from turnstile.compiler.images.placeholders import Placeholders, parted, placeholders_of


def runs(ids: list[int], break_id: int | None = None) -> list[tuple[int, int]]:
    return list(Placeholders(9, break_id).spans(np.array(ids, np.int32), 9))


def test_each_run_of_the_placeholder_is_an_image() -> None:
    assert runs([1, 9, 9, 2, 9, 1, 9, 9, 9]) == [(1, 2), (4, 1), (6, 3)]
    assert runs([9]) == [(0, 1)]
    assert runs([1, 2]) == runs([]) == []


def test_of_more_runs_than_images_those_count_that_a_picture_opens() -> None:
    ids = np.array([9, 5, 9, 9, 6, 9, 5, 9], np.int32)
    assert Placeholders(9, start_id=5).spans(ids, 2) == ((2, 2), (7, 1))
    assert len(Placeholders(9, start_id=5).spans(ids, 4)) == len(Placeholders(9).spans(ids, 2)) == 4


def test_images_without_anything_between_them_are_parted_by_their_sizes() -> None:
    assert parted(((1, 10), (20, 4)), [4, 6, 4]) == ((1, 4), (5, 6), (20, 4))
    for counts in ([4, 4, 4], [4, 6], [4, 6, 4, 4], [10, 5], []):
        assert parted(((1, 10), (20, 4)), counts) is None


def test_rows_with_breaks_between_them_are_one_image() -> None:
    rows = [9, 9, 7, 9, 9, 8]
    assert runs([1, *rows, *rows, 2], break_id=7) == [(1, 5), (7, 5)]
    assert runs([9, 7, 1, 7, 9], break_id=7) == [(0, 1), (4, 1)]
    assert runs(rows) == [(0, 2), (3, 2)]


@pytest.mark.parametrize(
    ("config", "tokens", "expected"),
    [
        ({"model_type": "qwen3_vl", "image_token_id": 5}, {}, Placeholders(5)),
        (
            {"model_type": "gemma3", "image_token_index": 6, "boi_token_index": 4},
            {},
            Placeholders(6, None, 4),
        ),
        ({"image_token_id": None, "image_token_index": 6}, {}, Placeholders(6)),
        ({"model_type": "qwen2_5_vl"}, {}, Placeholders(151655)),
        ({"model_type": "qwen2_5_vl", "image_token_id": 5}, {"<|image_pad|>": 4}, Placeholders(4)),
        ({"model_type": "internvl_chat"}, {"<IMG_CONTEXT>": 3, "<img>": 2}, Placeholders(3)),
        (
            {"model_type": "mistral3", "image_token_index": 10},
            {"[IMG]": 10, "[IMG_BREAK]": 12},
            Placeholders(10, 12),
        ),
        (
            {"model_type": "llava", "image_token_index": 10},
            {"[IMG]": 10, "[IMG_BREAK]": 12},
            Placeholders(10, 12),
        ),
        ({}, {"<image>": 8, "<s>": 1}, Placeholders(8)),
        ({}, {"<image>": 8, "<|image|>": 1}, None),
        ({"model_type": "qwen3", "vocab_size": 9}, {}, None),
        ({}, {}, None),
    ],
)
def test_tokenizer_config_and_type_of_the_model_tell_the_id(
    config: dict[str, object], tokens: dict[str, int], expected: Placeholders | None
) -> None:
    assert placeholders_of(config, tokens) == expected
