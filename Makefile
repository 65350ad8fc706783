# The two commands: `make demo` and `make test`. The others are parts of them or stand beside them.
PREFIX ?= /usr/local
.DEFAULT_GOAL := build
.PHONY: help demo build test setup asan tsan gcc12 fuzz oracles peers perplexity bars gpt2 real-models install clean

help: ## this list
	@sed -n 's/^\([a-z0-9 -]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: ## from nothing to a streamed answer of a real model
	@tools/demo.sh

build: ## build/bin/brisk, and the tests
	@tools/setup.sh test
	@tools/build.sh release

test: ## all that CI runs
	@python3 tools/run_tests.py

setup: ## only install what is missing
	@tools/setup.sh test

asan: ## unit tests, ONNX suites and hostile files under the address and undefined-behaviour sanitizers
	@tools/setup.sh sanitize
	@tools/setup.sh test
	@tools/build.sh asan
	@tools/unit_tests.sh build-asan
	@tools/command_tests.sh build-asan/bin/brisk

tsan: ## unit tests under the thread sanitizer
	@tools/setup.sh sanitize
	@tools/build.sh tsan
	@tools/unit_tests.sh build-tsan

gcc12: ## the same with GCC 12
	@tools/setup.sh gcc12
	@tools/build.sh $@
	@tools/unit_tests.sh build-$@

fuzz: ## every fuzzer for a minute, under libFuzzer and the address sanitizer
	@tools/setup.sh sanitize
	@tools/fuzz.sh

oracles: ## regenerate the tests' goldens with torch, transformers and tokenizers, and compare
	@tools/setup.sh oracles
	@tools/build.sh release brisk
	@.venv-oracles/bin/python tools/oracles/regenerate.py

peers: ## times brisk beside llama.cpp on the real model (a quiet machine; PEERS="--width int8" for a part)
	@tools/setup.sh peers
	@bench/peers/build.sh
	@bench/peers/compare.py $(PEERS)

perplexity: ## what each precision costs, on weights off every grid, beside llama.cpp's quantisers, against the bars
	@tools/setup.sh peers
	@bench/peers/build.sh
	@bench/perplexity.py $(PERPLEXITY)

bars: ## streams, neighbours, memory and the server's own cost on the real model in int8, against their bars (a quiet machine)
	@tools/setup.sh demo
	@cmake --preset release -DBRISK_BENCH=ON >/dev/null
	@tools/build.sh release brisk device_limits server_cost
	@bench/bars.py $(BARS)

gpt2: ## GPT-2 from ONNX beside onnxruntime: prefill, decode, share of the read bandwidth (a quiet machine)
	@tools/setup.sh oracles
	@cmake --preset release -DBRISK_BENCH=ON >/dev/null
	@tools/build.sh release brisk device_limits
	@.venv-oracles/bin/python bench/gpt2_onnx.py $(GPT2)

real-models: ## 41 real ONNX models: outputs and times beside onnxruntime's, written to docs/real-models.md (a quiet machine)
	@tools/setup.sh real-models
	@tools/build.sh release brisk
	@.venv/bin/python tools/oracles/real_onnx.py .cache/real-onnx-goldens
	@.venv/bin/python bench/real_onnx.py --table $(MODELS)

install: build ## into PREFIX (default /usr/local), with find_package(brisk)
	@cmake --install build --prefix $(PREFIX)

clean: ## remove every build folder
	rm -rf build build-*
