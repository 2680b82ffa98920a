# SPDX-License-Identifier: Apache-2.0
# The everyday commands, over CMake. `make help` lists them.
SHELL := /bin/bash
JOBS  ?= $(shell nproc)
CMAKE ?= cmake

.DEFAULT_GOAL := build
.PHONY: build debug tsan python setup demo test test-debug test-tsan test-long aarch64-ready test-aarch64 test-aarch64-kernels bench bench-ops bench-raster fmt lint clean help

build: build/build.ninja ## build/tenon, build/libtenon.so and build/libtenon.a
	@$(CMAKE) --build build -j $(JOBS)

debug: build/debug/build.ninja ## the same in build/debug, with address and undefined-behaviour sanitizers
	@$(CMAKE) --build build/debug -j $(JOBS)

tsan: build/tsan/build.ninja ## the same in build/tsan, with the thread sanitizer
	@$(CMAKE) --build build/tsan -j $(JOBS)

python: build/build.ninja ## the Python package in build/python, for PYTHONPATH (pip install . installs it)
	@$(CMAKE) --build build -j $(JOBS) --target tenon_python

build/build.ninja:
	@$(CMAKE) --preset release

build/%/build.ninja:
	@$(CMAKE) --preset $*

setup: ## install what building and testing need (Debian, Ubuntu): packages, and .venv
	@tools/setup.sh

demo: setup ## read the text in a picture with a real model
	@$(MAKE) --no-print-directory build
	@examples/ocr/run.sh

test: setup ## build twice (release, sanitizers) and run all but the long tests
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory debug
	@ctest --test-dir build/all-tests -j $(JOBS) --output-on-failure -LE 'long'

test-debug: debug ## the tests of the sanitizer build only
	@ctest --test-dir build/debug -j $(JOBS) --output-on-failure -LE 'long'

test-tsan: tsan ## the tests of the thread-sanitizer build only
	@ctest --test-dir build/tsan -j $(JOBS) --output-on-failure -LE 'long'

test-long: setup ## all tests, the long ones too
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory debug
	@ctest --test-dir build/all-tests -j $(JOBS) --output-on-failure

aarch64-ready:
	@tools/setup.sh --aarch64
	@.venv/bin/python tools/prepare_test_models.py cases generated quantised
	@$(MAKE) --no-print-directory build/aarch64/build.ninja

test-aarch64: aarch64-ready ## build for aarch64 and run the unit tests and small models there, under qemu (on Debian)
	@$(CMAKE) --build build/aarch64 -j $(JOBS)
	@ctest --test-dir build/aarch64 -j $(JOBS) --output-on-failure -LE 'long'

KERNEL_TESTS := $(filter-out %_long,$(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_cpu_*.c)))
test-aarch64-kernels: aarch64-ready ## of these only the kernels' unit tests and the small models
	@$(CMAKE) --build build/aarch64 -j $(JOBS) --target tenon_cli $(KERNEL_TESTS)
	@ctest --test-dir build/aarch64 -j $(JOBS) --output-on-failure -R '^unit\.cpu_|^models$$' -LE 'long'

bench: python ## time models against onnxruntime, OpenVINO and MNN (BENCH: arguments of bench/peers.py)
	@bench/run.sh $(BENCH)

bench-ops: python ## time single ops against the machine and onnxruntime (BENCH: arguments of bench/ops.py)
	@bench/run.sh ops $(BENCH)

bench-raster: build ## time moving data against memcpy, numpy and onnxruntime
	@$(or $(PYTHON),.venv/bin/python) bench/raster.py --build build

fmt: ## format the C sources in place and repair line ends
	@.venv/bin/python tools/checks.py --fix crlf end-of-file clang-format

lint: build ## the audit, the checks and clang-tidy
	@.venv/bin/python tools/audit.py
	@.venv/bin/python tools/checks.py
	@run-clang-tidy -quiet -j $(JOBS) -p build '^$(CURDIR)/(src|cli|examples)/'

clean: ## remove build/
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
