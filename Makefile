# The commands of this project. They need make, git and a Python >= 3.12, and nothing else.
# One environment, .venv, is built from the pinned and hashed requirements/dev.txt, and built
# again when these or pyproject.toml change.   PYTHON=/path/to/python picks the interpreter.

BIN := .venv/bin
PYENV_PYTHONS := $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.*/bin/python

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types docs bench e2e-sglang lock clean

help:  ## what can be made
	@sed -n 's/^\([a-z0-9-]*\):.*##/\1:/p' Makefile | awk -F': *' '{ printf "make %-12s%s\n", $$1, $$2 }'

demo: .venv/project  ## the whole way on this machine, from a replayed server to training sequences
	@$(BIN)/turnstile demo

test: .venv/project  ## every test, on all cores
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

check: lint types docs  ## ruff, mypy and the tests of the documents

lint: .venv/project
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# An editable install is invisible to mypy; what it can see is a tree of links with the packages' names.
types: .venv/project
	$(BIN)/python tests/house/link_tree.py .venv/types
	MYPYPATH=.venv/types $(BIN)/mypy -p turnstile -m turnstile_addon

docs: .venv/project
	$(BIN)/python -m pytest tests/docs

bench: .venv/project  ## what capturing and compiling cost
	$(BIN)/python bench/run.py

# The server is the one at TURNSTILE_E2E_URL, else one started from the kit in TURNSTILE_SGLANG_KIT.
e2e-sglang: export TURNSTILE_SGLANG_KIT ?= $(wildcard ../shared/sglang_cpu)
e2e-sglang: .venv/project  ## the tests against a real SGLang server (CONTRIBUTING.md)
	$(BIN)/python -m pytest tests/e2e_sglang -rs

lock: .venv-lock/ready  ## newest allowed versions into requirements/
	.venv-lock/bin/uv pip compile requirements/lock.in --upgrade $(LOCKED) -o requirements/lock.txt
	.venv-lock/bin/uv pip compile pyproject.toml --group dev --extra demo --extra images --upgrade $(LOCKED) -o requirements/dev.txt

LOCKED := --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'

clean:  ## all that was made
	rm -rf .venv .venv-lock build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environments ---------------------------------------------------------------------

.venv/project: .venv/requirements pyproject.toml
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/requirements: requirements/dev.txt
	@$(make_venv)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	@touch $@

.venv-lock/ready: requirements/lock.txt
	@$(make_venv)
	.venv-lock/bin/python -m pip install --quiet --require-hashes --requirement requirements/lock.txt
	@touch $@

# A name on PATH may be a pyenv shim that fails when it is run: so each is asked for its version.
define make_venv
set -e; \
python=; \
for candidate in $(or $(PYTHON),python3.13 python3.12 python3 $$(ls -d $(PYENV_PYTHONS) 2>/dev/null | sort -rV)); do \
	if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; \
	then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
	echo "Turnstile needs Python 3.12 or newer with its venv module (Debian: python3-venv). Looked at:" >&2; \
	echo "  $(or $(PYTHON),python3.13 python3.12 python3 on PATH; $(PYENV_PYTHONS))" >&2; \
	echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
	exit 1; \
fi; \
echo "making $(@D) with $$("$$python" -V) ($$python)"; \
"$$python" -m venv --clear $(@D)
endef
