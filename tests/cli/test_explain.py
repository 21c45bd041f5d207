import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.logs import answered, write_log
from tests.support.talks import COUNT, FACTS, MORE, Talk, answer
from tests.support.tokenizer import write_tokenizer
from turnstile.cli.main import main
from turnstile.compiler.tokenizer import tokenizer_in


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["explain", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a tokenizer."""
    return write_tokenizer(tmp_path / "tokenizer")


@pytest.fixture
def log(tmp_path: Path, folder: Path) -> Path:
    """A secret that was sampled letter by letter, and is spelled in one token when it is resent."""
    talk = Talk(tokenizer_in(folder))
    history = [COUNT, answer("hello"), MORE]
    return write_log(
        tmp_path / "traces",
        talk.turn(1, ["Q"], [*"hello", "\xe9"[:1], "<|im_end|>"], [COUNT], answer("hello")),
        talk.turn(2, ["Q", "hello", "\xe9", "<|im_end|>", "M"], ["4"], history, answer("4")),
        talk.turn(3, ["Q"], ["hello"], [COUNT], answer("hello"), group_id="other"),
        facts=FACTS,
    )


def test_kinds_are_counted_and_splits_shown_by_their_ids(log: Path) -> None:
    result = explain(log)
    assert (result.exit_code, result.stderr) == (0, "")
    for told in (
        "unknown",
        "nothing of this can be shown",
        "--tokenizer DIR tells it",
        "[71, 68, 75, 75, 78]",
    ):
        assert told in result.stdout, told


def test_no_text_is_shown_unless_a_tokenizer_is_named(log: Path, folder: Path) -> None:
    assert "ello" not in explain(log).stdout + explain(log, "--json").stdout
    shown = explain(log, "--tokenizer", folder).stdout
    assert "...Q[h][e][l][l][o]\\xc3\\xa9<|im_end|>..." in shown
    assert "...Q[hello]\\xc3\\xa9<|im_end|>M..." in shown


def test_a_program_gets_every_split_as_an_object_a_line(log: Path, folder: Path) -> None:
    (line,) = explain(log, "--json", "--tokenizer", folder, "--examples", 0).stdout.splitlines()
    record = json.loads(line)
    assert (record["kind"], record["cause"], record["shared_tokens"]) == ("retokenized", "retokenized", 1)
    assert record["later"]["text"]["differing"] == ["hello"]
    assert "text" not in json.loads(explain(log, "--json").stdout)["later"]


def test_only_so_many_splits_of_a_kind_are_shown(tmp_path: Path) -> None:
    write_log(tmp_path, *(answered(number, [1, 2], [number]) for number in range(3, 8)))
    assert [
        explain(tmp_path, "--examples", limit).stdout.count("exactly the prompt") for limit in (0, 2, 9)
    ] == [
        0,
        2,
        4,
    ]


def test_a_log_without_splits_says_so(log: Path) -> None:
    result = explain(log, "--group", "other")
    assert (result.exit_code, result.stdout) == (
        0,
        "no split: each turn goes on an earlier one, or is the first\n",
    )
    assert explain(log, "--group", "other", "--json").stdout == ""


def test_a_group_that_is_not_there_exits_with_3(log: Path) -> None:
    result = explain(log, "--group", "none")
    assert (result.exit_code, result.stderr) == (3, "Error: no exchange of group none is in these logs\n")
    result = explain(log, "--group", "none", "--group", "other")
    assert (result.exit_code, result.stderr) == (0, "Warning: no exchange of group none is in these logs\n")


def test_a_folder_without_a_tokenizer_exits_with_3(log: Path, tmp_path: Path) -> None:
    result = explain(log, "--tokenizer", tmp_path)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith(f"Error: {tmp_path} holds no tokenizer.json")


def test_damage_is_told_and_the_rest_explained(log: Path) -> None:
    (log.parent / "zeros.tslog").write_bytes(bytes(4096))
    result = explain(log.parent)
    assert (result.exit_code, "unknown" in result.stdout) == (0, True)
    assert result.stderr.startswith("Warning: zeros.tslog: log_corrupt: the file is no trace log")


def test_a_tokenizer_of_another_model_is_named_once(log: Path, folder: Path) -> None:
    file = folder / "tokenizer.json"
    other = json.loads(file.read_text())
    vocabulary = other["model"]["vocab"]
    vocabulary["h"], vocabulary["i"] = vocabulary["i"], vocabulary["h"]
    file.write_text(json.dumps(other))
    result = explain(log, "--tokenizer", folder)
    assert (result.exit_code, "[i]" in result.stdout) == (0, False)
    assert result.stderr == (
        "Warning: this tokenizer spells id 71 otherwise than the log; name the folder of the model's own\n"
    )
