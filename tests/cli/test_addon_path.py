import ast
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from turnstile.cli.main import main


def test_the_path_is_that_of_the_script_for_mitmdump() -> None:
    result = CliRunner().invoke(main, ["addon-path"])
    path = Path(result.output.removesuffix("\n"))
    assert result.exit_code == 0
    assert path.name == "turnstile_addon.py"
    assert "addons" in {
        target.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_telling_the_path_does_not_import_the_addon() -> None:
    script = (
        "import sys\n"
        "from turnstile.cli.main import main\n"
        "main(['addon-path'], standalone_mode=False)\n"
        "print({'turnstile_addon', 'mitmproxy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_an_installation_without_the_script_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.mitmdump_process.find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["addon-path"])
    assert result.exit_code == 3
    assert result.stderr == (
        "Error: turnstile_addon.py is not installed beside turnstile: install turnstile-rl again\n"
    )
