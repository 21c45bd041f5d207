"""Imports run one way: cli -> api -> compiler -> addon.backends, addon.tracelog <- addon.capture."""

import subprocess
import sys

import pytest

from tests.house.link_tree import ROOT, package_folders
from tests.house.source_tree import PYPROJECT, imports, modules

TRACELOG = "turnstile.addon.tracelog"
BACKENDS = "turnstile.addon.backends"
CAPTURE = "turnstile.addon.capture"
FLOWS = f"{CAPTURE}.log_flows"
"""Of what imports mitmproxy the one module that a command may use."""
OFFLINE = ("turnstile.compiler", BACKENDS, TRACELOG)

# What each layer may import of the others, and of third parties.
MAY_IMPORT = {
    "turnstile_addon": {CAPTURE, "turnstile"},
    "turnstile.cli": {
        "turnstile",
        "turnstile.compiler",
        "turnstile.sample_traces",
        BACKENDS,
        TRACELOG,
        FLOWS,
    },
    "turnstile": {"turnstile.compiler", BACKENDS, TRACELOG},
    "turnstile.compiler": {BACKENDS, TRACELOG},
    CAPTURE: {BACKENDS, TRACELOG},
    FLOWS: {CAPTURE, BACKENDS, TRACELOG},
    BACKENDS: {TRACELOG},
    TRACELOG: set(),
    "turnstile.addon": set(),
    "turnstile.sample_traces": set(),
}
THIRD_PARTIES = {
    "turnstile_addon": set(),
    "turnstile.cli": {"click", "openai", "rich"},
    "turnstile": {"openai"},
    "turnstile.compiler": {
        "PIL",
        "msgpack",
        "numpy",
        "orjson",
        "pyarrow",
        "pybase64",
        "tokenizers",
        "transformers",
        "zstandard",
    },
    CAPTURE: {"brotli", "mitmproxy", "orjson", "pybase64", "zstandard"},
    FLOWS: {"mitmproxy"},
    BACKENDS: {"orjson"},
    TRACELOG: {"msgpack", "pybase64", "zlib_ng", "zstandard"},
    "turnstile.addon": set(),
    "turnstile.sample_traces": set(),
}


ABSENT = ("mitmproxy", "mitmproxy_rs", "openai", "click", "rich", "transformers")
"""What a machine that only compiles need not have."""


def layer(module: str) -> str:
    """The layer that holds a module, or the thing in a module, of that name."""
    return max((name for name in MAY_IMPORT if f"{module}.".startswith(f"{name}.")), key=len)


def is_ours(name: str) -> bool:
    return name.split(".")[0] in ("turnstile", "turnstile_addon")


def third_parties(names: set[str]) -> set[str]:
    tops = {name.split(".")[0] for name in names if not is_ours(name)}
    return tops - sys.stdlib_module_names


def test_every_mapped_package_has_its_place() -> None:
    assert set(package_folders()) <= set(MAY_IMPORT)


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_imports_only_layers_below_its_own(module: str) -> None:
    used = {layer(name) for name in imports(module, modules()[module]) if is_ours(name)}
    assert used <= MAY_IMPORT[layer(module)] | {layer(module)}


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_imports_only_the_third_parties_of_its_layer(module: str) -> None:
    assert third_parties(imports(module, modules()[module])) <= THIRD_PARTIES[layer(module)]


def test_what_is_imported_is_declared_as_a_dependency() -> None:
    project = PYPROJECT["project"]
    declared = sum(project["optional-dependencies"].values(), project["dependencies"])
    names = {
        requirement.split(">=")[0].replace("pillow", "PIL").replace("-", "_") for requirement in declared
    }
    assert names == set().union(*(third_parties(imports(*item)) for item in modules().items()))


@pytest.mark.parametrize("module", sorted(name for name in modules() if layer(name) == "turnstile.cli"))
def test_a_command_imports_other_than_click_only_where_it_is_used(module: str) -> None:
    assert third_parties(imports(module, modules()[module], whole=False)) <= {"click"}


def test_nothing_imports_a_folder_by_its_bare_name() -> None:
    folders = {folder.name for folder in package_folders().values()}
    files = {path.relative_to(ROOT).as_posix(): path for path in modules().values()}
    for folder in ("tests", "bench"):
        files |= {path.relative_to(ROOT).as_posix(): path for path in (ROOT / folder).rglob("*.py")}
    bare = {
        (name, imported)
        for name, path in files.items()
        for imported in imports(name, path)
        if imported.split(".")[0] in folders
    }
    assert bare == set()


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    beside = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix in ("", ".py")}
    ours = {part for module in modules() for part in module.split(".")}
    assert (ours | beside) & sys.stdlib_module_names == set()


def test_the_compiler_and_the_log_work_without_the_proxy() -> None:
    offline = sorted(name for name in modules() if layer(name) in OFFLINE)
    script = (
        "import importlib, sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {ABSENT}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"for name in {offline!r}:\n"
        "    importlib.import_module(name)\n"
        f"print(len({offline!r}), sorted(name for name in sys.modules if 'mitmproxy' in name))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{len(offline)} []\n", "")
