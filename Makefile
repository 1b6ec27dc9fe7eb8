# The two commands of the README, and what developers use. Each does its own set-up.
.PHONY: demo check setup build test format tidy install clean

JOBS ?= $(shell nproc)

demo: setup
	scripts/demo

check: setup
	scripts/check

setup:
	scripts/setup

build: setup
	cmake --preset release > build/configure.log || { cat build/configure.log; exit 1; }
	cmake --build --preset release -j $(JOBS)

format:
	clang-format-19 -i $$(git ls-files '*.cc' '*.h')

tidy:
	scripts/tidy

install: build
	cmake --install build/release

clean:
	rm -rf build
