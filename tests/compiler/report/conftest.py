import pytest

from tests.support.chromium import chromium


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says at the end, where nobody can miss it, that a part was not tested."""
    if chromium() is None:
        terminalreporter.write_line(
            "NOT TESTED: the scripts of the report's page, for there is no chromium on this machine",
            yellow=True,
        )
