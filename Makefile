# `make demo` and `make test` do all of their own set-up: a .venv with pinned packages and, run by root on Debian,
# the distribution packages that are missing. Nothing is written outside this folder but those and the users' caches.

.PHONY: demo test test-all bench lint format clean setup-run setup-dev
.NOTPARALLEL:

PYTHON = $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$p && break; done)
BIN := .venv/bin
RUN := .venv/run.stamp
DEV := .venv/dev.stamp
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check install
C_FILES = $(shell find generator host_tools runtime_c firmware_templates examples tests \( -name '*.[ch]' -o -name '*.inc' \) | sort)
# Tests start many processes of Python: what they import is compiled once.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

# $(call distribution,TEST,PACKAGES,WITHOUT): where TEST fails, root installs PACKAGES and others read what to install;
# succeeds in any case.
define distribution
@present() { $(1); }; present >/dev/null 2>&1 || { \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "make: installing $(2)" >&2; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
			install --no-install-recommends $(2); } </dev/null >/dev/null 2>&1; \
	fi; \
	present >/dev/null 2>&1 || \
		echo "make: $(2) not found: \`sudo apt-get install $(2)\` installs it; without it $(3)" >&2; \
}
endef

define qemu
$(call distribution,command -v qemu-system-arm && command -v qemu-system-aarch64,qemu-system-arm,only the board \`native\` can run here)
endef

demo: setup-run
	$(qemu)
	@rm -rf build/demo
	@board=rpi-zero; command -v qemu-system-arm >/dev/null || board=native; set -e; \
	$(BIN)/gen firmware --board $$board --out build/demo; \
	$(BIN)/gen validate build/demo --emulate --count 100 --seed 1; \
	$(BIN)/gen bench build/demo --emulate

test: lint test-packages
	$(PYTEST)

# The tests that need PyTorch, in an environment of their own, for it is large; its build without CUDA is not in PyPI.
TORCH := .venv-torch
.PHONY: test-torch
test-torch: test-packages $(TORCH)/done.stamp
	@if $(TORCH)/bin/python -c 'import torch' 2>/dev/null; then \
		$(TORCH)/bin/python -m pytest -n auto --dist worksteal tests/test_torch*.py tests/test_learn*.py tests/test_slim*.py tests/test_cli_slim.py; \
	else echo "make: no build of PyTorch without CUDA can be reached; the tests that need it are skipped" >&2; fi

# The packages of .venv are seen from there, so only PyTorch and what it needs are installed.
$(TORCH)/done.stamp: requirements-torch.txt $(DEV)
	@echo "make: installing the pinned packages of requirements-torch.txt" >&2
	@$(PYTHON) -m venv --clear $(TORCH)
	@echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
		>"$$($(TORCH)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages_of_test.pth"
	@install="$(TORCH)/bin/python -m pip -qq --disable-pip-version-check install --requirement requirements-torch.txt"; \
		$$install 2>/dev/null || $$install --retries 1 --timeout 20 --extra-index-url https://download.pytorch.org/whl/cpu || true
	@touch $@

# The tables of `gen slim` on real data: hours on one thread, and goes on where it was stopped.
.PHONY: slim-bench
slim-bench: $(TORCH)/done.stamp
	$(TORCH)/bin/python -m bench.slim --write

# docs/zoo.md: every model of ../shared/models on every proven board; goes on where it was stopped.
.PHONY: zoo
zoo: setup-dev
	$(qemu)
	$(BIN)/python -m bench.zoo

test-all: lint test-packages
	$(PYTEST) -m "long or not long"

# MLPerf Tiny's benchmarks on a board's emulator, and a submission's folder. DATA: the public runner's;
# PORT and TASK: measure the board at that port, with the firmware of that benchmark on it.
.PHONY: mlperf
BOARD ?= nucleo-l4r5zi
MODELS ?= ../shared/models
SAMPLES ?= 10
mlperf: setup-dev
	$(qemu)
	@$(BIN)/gen mlperf --board $(BOARD) --models $(MODELS) $(if $(DATA),--data $(DATA)) --out build/mlperf-$(BOARD) \
		$(if $(PORT),--port $(PORT) --task $(TASK),--emulate --samples $(SAMPLES))

# Measures the figures in docs/benchmarks.md, docs/cores.md and docs/why.svg, and writes them.
bench: setup-dev
	$(qemu)
	$(call distribution,command -v llvm-mca && command -v llvm-objdump,llvm,no document is written)
	$(BIN)/python -m bench.figures

# AddressSanitizer comes with gcc, Python.h with python3-dev; tests that want them or Chromium skip, in words, where they are absent.
.PHONY: test-packages
test-packages: setup-dev
	$(qemu)
	$(call distribution,command -v qemu-aarch64 && command -v qemu-arm && ls /usr/aarch64-linux-gnu/lib /usr/arm-linux-gnueabihf/lib,qemu-user libc6-arm64-cross libc6-armhf-cross,no shared library for Arm runs in the tests)
	$(call distribution,command -v qemu-system-riscv32,qemu-system-misc,no RISC-V board runs in the tests)
	$(call distribution,command -v arm-none-eabi-gcc && command -v avr-gcc && command -v avr-size && command -v riscv64-unknown-elf-gcc && command -v xtensa-lx106-elf-gcc,gcc-arm-none-eabi gcc-avr binutils-avr avr-libc gcc-riscv64-unknown-elf gcc-xtensa-lx106,the C of libraries is not compiled for their cores)
	$(call distribution,echo '#include <Python.h>' | gcc -I"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')" -fsyntax-only -xc -,gcc libc6-dev python3-dev,the sanitizer tests are skipped)
	$(call distribution,command -v cppcheck && command -v cmake,cppcheck cmake,the MISRA count and the CMake builds are skipped)
	$(call distribution,command -v chromium || command -v chromium-browser || command -v google-chrome,chromium,no test draws the page of a plan)

lint: setup-dev
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(if $(C_FILES),$(BIN)/clang-format --dry-run -Werror $(C_FILES))

format: setup-dev
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .
	@$(if $(C_FILES),$(BIN)/clang-format -i $(C_FILES))

# The wheel, the sdist, their SBOM and their sums in dist/, of the last commit, built twice and compared (release/release.py).
# `make release TAG=1` makes the version's tag as well; nothing is pushed.
.PHONY: release pins
release: build/release/done.stamp
	@build/release/bin/python release/release.py $(if $(TAG),--tag)

# Writes the hashes of all pinned releases into requirements*.txt, after a change of a pin (release/pins.py).
pins: | .venv/bin/python
	@rm -rf build/pins
	@$(PYTHON) -m venv build/pins
	@build/pins/bin/python -m pip -qq --disable-pip-version-check install \
		$$(sed -n 's/^\(pip-tools==[^ ]*\).*/\1/p' requirements-release.txt)
	@build/pins/bin/python release/pins.py

build/release/done.stamp: requirements-release.txt | .venv/bin/python
	@echo "make: installing the pinned packages of requirements-release.txt" >&2
	@$(PYTHON) -m venv --clear build/release
	@build/release/bin/python -m pip -qq --disable-pip-version-check install --require-hashes \
		--requirement requirements-release.txt
	@touch $@

clean:
	rm -rf .venv $(TORCH) build dist

setup-run: $(RUN)
setup-dev: $(DEV)

.venv/bin/python:
	$(if $(PYTHON),,$(error no Python >= 3.11 found: install one, on Debian 12 with `apt-get install python3`))
	$(call distribution,$(PYTHON) -c 'import ensurepip; import venv',python3-venv,no .venv can be made)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null
	@echo "make: setting up .venv" >&2
	@$(PYTHON) -m venv .venv

$(RUN): requirements.txt pyproject.toml | .venv/bin/python
	@echo "make: installing the pinned packages of requirements.txt" >&2
	@$(PIP) --require-hashes --requirement requirements.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): requirements-dev.txt $(RUN)
	@echo "make: installing the pinned packages of requirements-dev.txt" >&2
	@$(PIP) --require-hashes --requirement requirements.txt --requirement requirements-dev.txt
	@touch $@
