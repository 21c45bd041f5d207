from pathlib import Path

import pytest

from tests.support.images import picture, processor_folder, sha256, shown
from tests.support.logs import answered, write_log
from turnstile.addon.tracelog.errors import LogFormatError
from turnstile.compiler.compilation import compile_logs

MORE = {"role": "user", "content": "And now?"}


def test_logs_become_sequences_and_findings(tmp_path: Path) -> None:
    write_log(
        tmp_path, answered(1, [1], [2]), answered(2, [1, 2, 3], [4]), answered(3, [1, 2.5], [4], group_id="h")
    )
    compilation = compile_logs(str(tmp_path))
    assert [sequence.tokens.tolist() for sequence in compilation] == [[1, 2, 3, 4]]
    assert (len(compilation), compilation[0], compilation[:]) == (
        1,
        compilation.sequences[0],
        compilation.sequences,
    )
    assert [finding.kind for finding in compilation.findings] == ["token_type"]


def test_what_is_wanted_can_be_chosen(tmp_path: Path) -> None:
    write_log(
        tmp_path, answered(1, [1], [2]), answered(2, [1, 2, 3], [4]), answered(3, [9], [4], group_id="h")
    )
    found = compile_logs([tmp_path], groups=["g"], policy="per-request", max_tokens=3)
    assert [sequence.tokens.tolist() for sequence in found] == [[1, 2]]
    assert [(finding.kind, finding.severity) for finding in found.findings] == [("too_long", "error")]


def test_the_findings_about_a_log_come_first(tmp_path: Path) -> None:
    path = write_log(tmp_path, answered(1, [1.5], [2]), answered(2, [1], [2]), close=False)
    path.write_bytes(path.read_bytes()[:-1])
    assert [finding.kind for finding in compile_logs([tmp_path]).findings] == ["log_torn", "token_type"]


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError):
        compile_logs([tmp_path])


def test_images_are_compiled_and_processed(tmp_path: Path) -> None:
    red, blue = picture("red"), picture("blue")
    write_log(
        tmp_path / "log",
        answered(1, [1, 9, 9, 9, 9], [3], request={"messages": [shown(red)]}),
        answered(2, [1, 9, 9, 9, 9, 3, 4], [5], request={"messages": [shown(red), MORE]}),
        answered(3, [1, 9, 9, 9, 9, 3, 4], [5], request={"messages": [shown(blue), MORE]}),
        answered(4, [1, 9, 9], [3], request={"messages": [shown(red)]}, group_id="h"),
        facts={"kind": "sglang", "model_config": {"image_token_id": 9}},
    )
    found = compile_logs(tmp_path / "log", image_processor=processor_folder(tmp_path / "processor"))
    same, other, third = found
    assert [image.sha256 for sequence in found for image in sequence.images] == list(
        map(sha256, (red, blue, red))
    )
    assert (len(same.exchanges), same.images[0].token_span, same.images[0].data) == (2, (1, 4), red)
    assert other.parent is not None
    assert (other.parent.cause, other.parent.shared_tokens) == ("image_changed", 1)
    grid = same.processed_images[0].tensors["image_grid_thw"]
    assert (grid.tolist(), len(other.processed_images), third.processed_images) == ([[1, 4, 4]], 1, ())
    assert [finding.kind for finding in found.findings] == ["image_token_count"]


def test_the_model_can_be_named_where_the_log_does_not_tell_its_placeholder(tmp_path: Path) -> None:
    log = write_log(tmp_path, answered(1, [1, 9], [3], request={"messages": [shown(picture())]}))
    (tmp_path / "config.json").write_text('{"image_token_id": 9}')
    assert [finding.kind for finding in compile_logs(log).findings] == ["placeholder_mismatch"]
    assert len(compile_logs(log, model=tmp_path)[0].images) == 1
    limited = compile_logs(log, model=str(tmp_path), max_image_pixels=100)
    assert [finding.kind for finding in limited.findings] == ["image_too_large"]
