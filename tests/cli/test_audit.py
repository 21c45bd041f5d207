import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.logs import write_log
from tests.support.talks import COUNT, FACTS, Talk, answer
from tests.support.tokenizer import write_tokenizer
from turnstile.cli.main import main
from turnstile.compiler.tokenizer import tokenizer_in


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a tokenizer."""
    return write_tokenizer(tmp_path / "tokenizer")


@pytest.fixture
def log(tmp_path: Path, folder: Path) -> Path:
    """Two answers, one of which was sampled letter by letter."""
    talk, end = Talk(tokenizer_in(folder)), "<|im_end|>"
    return write_log(
        tmp_path / "traces",
        talk.turn(1, ["Q"], [*"hello", end], [COUNT], answer("hello")),
        talk.turn(2, ["R"], ["hello", end], [COUNT], answer("hello")),
        facts=FACTS,
    )


def test_the_share_of_answers_and_tokens_is_told(log: Path, folder: Path) -> None:
    result = audit(log, "--tokenizer", folder)
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert (result.exit_code, rows) == (
        0,
        [
            "2 answers",
            "1 come back in other tokens (50.0%)",
            "5 of 8 sampled tokens do not (62.5%)",
            "1 split_differently",
            "2 end with a stop token, which the text of a message does not hold",
            "",
            rows[6],
            "sampled [71, 68, 75, 75, 78]",
            "encoded [259]",
        ],
    )


def test_text_is_shown_only_when_it_is_asked_for(log: Path, folder: Path) -> None:
    for option in ((), ("--json",)):
        assert "hello" not in audit(log, "--tokenizer", folder, *option).stdout
    shown = audit(log, "--tokenizer", folder, "--show-text").stdout
    assert "[h][e][l][l][o]" in shown
    assert "[hello]" in shown
    (example,) = json.loads(audit(log, "--tokenizer", folder, "--show-text", "--json").stdout)["examples"]
    assert example["text"] == {"sampled_ids": list("hello"), "encoded_ids": ["hello"]}


def test_examples_can_be_left_out(log: Path, folder: Path) -> None:
    assert "sampled  [" not in audit(log, "--tokenizer", folder, "--examples", 0).stdout


def test_a_tokenizer_must_be_named(log: Path, tmp_path: Path) -> None:
    assert audit(log).exit_code == 2
    assert audit(log, "--tokenizer", tmp_path / "absent").exit_code == 2
    assert audit(log, "--tokenizer", tmp_path).exit_code == 3


def test_a_tokenizer_of_another_model_is_not_counted_as_a_difference(log: Path, folder: Path) -> None:
    file = folder / "tokenizer.json"
    other = json.loads(file.read_text())
    vocabulary = other["model"]["vocab"]
    vocabulary["h"], vocabulary["i"] = vocabulary["i"], vocabulary["h"]
    file.write_text(json.dumps(other))
    result = audit(log, "--tokenizer", folder)
    assert result.exit_code == 0
    assert " ".join(result.stdout.split()).startswith("0 answers 0 come back in other tokens (none)")
    assert result.stderr == (
        "Warning: id 71 is not in this tokenizer, or is spelled otherwise in the log; "
        "2 answers were not compared: name the folder of the model's own\n"
    )
