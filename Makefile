# `make demo` and `make test` do all set-up themselves: Rust, Python 3.10 or newer and a C and C++ compiler are enough, but for
# processors newer than PyPI's PoCL: there `make test` wants the system's, which it installs where it is root.
PYTHON ?= python3
VENV := .venv
# Frameworks whose absence fails the tests instead of skipping them.
PROMISED := numpy,torch,cupy,ml_dtypes,tvm_ffi,ziglang,tensorflow,pyopencl,maturin,warp,mypy,pyright
HAND_OVERS_PROMISED := numpy,torch,jax,numba,cuda.core,tensorflow,pyopencl,pycuda,tvm_ffi,warp
OPERATIONS_PROMISED := torch,jax,tensorflow,ziglang
PROCESSES_PROMISED := numpy,torch,jax,tensorflow,cuda.core,pyopencl,cloudpickle,distributed,nixl_cu13,ray
LAUNCH_PROMISED := numpy,torch,jax,numba,cuda.core,tensorflow,ziglang,warp
# The same for the driver suite; NVIDIA's cuda.h comes with torch.
DRIVER_PROMISED := cuda.core,cuda.bindings,cuda_header
# Where scripts/library.py lays libgpulend out.
LIBRARY := $(or $(CARGO_TARGET_DIR),target)/c
PREFIX ?= /usr/local
# Below PREFIX: `lib64`, or on Debian `lib/x86_64-linux-gnu`.
LIBDIR ?= lib
# Tools of the system's that this machine has: CI names valgrind.
SYSTEM_PROMISED ?=
C_PROMISED := cmake,cargo,torch,pybind11,nanobind,$(SYSTEM_PROMISED)
INSTRUCTIONS_PROMISED := torch,jax,numba,cuda,tvm_ffi,$(SYSTEM_PROMISED)
EXAMPLES_PROMISED := torch,tensorflow,pyopencl,pycuda
# Whose sample projects are in examples/clients.
CLIENTS_PROMISED := cuda.core,halide,taichi
BIN := $(VENV)/bin
# How many of its parts `make test` runs at a time: two more than cores, because tests wait for processes that they start.
JOBS ?= $(shell echo $$(($$(nproc) + 2)))
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.h' -o -name Cargo.toml)
PACKAGE := pyproject.toml $(shell find python -name '*.py' -o -name '*.pyi')
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# Ray's workers give way to everything else unless told otherwise, and starve beside other suites.
export RAY_worker_niceness := 0

# Targets that are no files: all whose names have no dot and no folder.
.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# The release build takes minutes more than cargo's plain one. It is used where it was built already; if not, the plain one is,
# and `make test` takes over what that compiled. uv downloads while cargo compiles.
BUILT := $(if $(wildcard $(VENV)/installed),$(VENV)/installed,$(VENV)/quick)
demo: $(VENV)/python ## run the main job with NumPy and the simulated GPU; TORCH=1 installs torch, gigabytes, and shows that too
	+@$(MAKE) --no-print-directory -j2 $(VENV)/demo $(if $(TORCH),$(VENV)/torch) $(BUILT)
	$(BIN)/gpulend demo
	@$(if $(TORCH),echo && $(BIN)/python examples/gallery.py)

gallery: $(VENV)/demo $(VENV)/torch $(VENV)/installed ## run the examples whose frameworks are installed, and show what ran where
	@$(BIN)/python examples/gallery.py

# Side by side: clippy beside the release build, then suites of which each keeps half a core busy, the longest first. What a part
# prints comes when it is over.
TESTS := check-rust pycuda check-python build-rust-tests test-processes test-python test-driver test-hand-overs test-launch test-examples test-operations test-programs test-kernels test-c test-rust test-instructions
test: ## lint and test everything that a laptop can
	+$(MAKE) --no-print-directory -j$(JOBS) --output-sync=target $(TESTS)

$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "gpulend needs Python 3.10 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q 'uv>=0.8,<1' 'maturin>=1.9,<2'
	@touch $@

# uv unpacks wheels once for all clones, and links them into each: pip takes two minutes of a core for what the tests need.
INSTALL := $(BIN)/uv pip install --python $(BIN)/python

$(VENV)/demo: $(VENV)/python pyproject.toml
	@echo "installing NumPy and ziglang into $(VENV)"
	$(INSTALL) -q --group demo
	@touch $@

# torch is large; uv shows how far it is.
$(VENV)/torch: $(VENV)/demo
	@echo "installing torch into $(VENV)"
	$(INSTALL) --group torch
	@touch $@

$(VENV)/release: $(VENV)/python pyproject.toml
	$(INSTALL) -q --group release
	@touch $@

$(VENV)/test: $(VENV)/python pyproject.toml
	@echo "installing what the tests need into $(VENV)"
	$(INSTALL) --group test
	@touch $@

$(VENV)/installed: $(VENV)/python $(RUST) $(PACKAGE) scripts/simulator.py
	@echo "building gpulend"
	$(BIN)/python scripts/simulator.py
	$(BIN)/maturin develop --release
	@touch $@

$(VENV)/quick: $(VENV)/python $(RUST) $(PACKAGE) scripts/simulator.py
	@echo "building gpulend, without optimisations"
	$(BIN)/python scripts/simulator.py --quick
	$(BIN)/maturin develop -q
	@touch $@

check: check-rust check-python ## format, lints and types

# What nobody waits for leaves the cores to the builds that all tests wait for.
ASIDE := nice -n 10

check-rust: $(VENV)/python
	cargo fmt --check
	$(ASIDE) cargo clippy --workspace --all-targets --features gpulend/cudarc -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(ASIDE) cargo doc --workspace --no-deps --features gpulend/cudarc

check-python: $(VENV)/test $(VENV)/installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pyright -p tests/types --pythonpath $(BIN)/python
	$(BIN)/python -m mypy.stubtest gpulend --mypy-config-file pyproject.toml --allowlist tests/stubtest.txt --ignore-unused-allowlist

stub: $(VENV)/test $(VENV)/installed ## copy docstrings of the sources into the stub that editors read
	$(BIN)/python scripts/stub.py

RUST_FEATURES := gpulend/sim,gpulend/cudarc
# By itself, so that it needs nothing that is installed.
build-rust-tests: $(VENV)/python
	$(ASIDE) cargo test --no-run --features $(RUST_FEATURES) -p gpulend -p gpulend-capi -p gpulend-runtime -p gpulend-sim

# With the compilers and the simulated GPU that the core's tests launch kernels on: such tests are ignored elsewhere, and fail
# here where one is missing. cudarc finds the simulated GPU by the loader's path. All packages in one call, as above: by itself one
# would have other features, and be built anew.
test-rust: $(VENV)/test $(VENV)/installed build-rust-tests ## unit, property, model and doc tests of the core, of gpulend.h and of the simulated GPU
	export GPULEND_SIM_LIBRARY=$(CURDIR)/python/gpulend/_simulator/libgpulend_sim.so && \
	export LD_LIBRARY_PATH=$(CURDIR)/python/gpulend/_simulator/driver$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH} && \
	zig=$$(ls $(CURDIR)/$(VENV)/lib/python3*/site-packages/ziglang/zig) && \
	nvrtc=$$(ls $(CURDIR)/$(VENV)/lib/python3*/site-packages/nvidia/cu*/lib/libnvrtc.so.1[0-9]) && \
	GPULEND_TEST_ZIGLANG=$$zig GPULEND_TEST_NVRTC=$$nvrtc \
		cargo test --features $(RUST_FEATURES) -p gpulend -p gpulend-capi -p gpulend-common -p gpulend-runtime -p gpulend-sim -- --include-ignored --skip dump::dump && \
	GPULEND_DEVICE=simulated $(or $(CARGO_TARGET_DIR),target)/debug/examples/cudarc
	GPULEND_DEVICE=simulated $(or $(CARGO_TARGET_DIR),target)/debug/examples/vector_add

test-python: $(VENV)/test $(VENV)/installed opencl ## the Python tests, with the frameworks that CI promises
	GPULEND_PROMISED=$(PROMISED) $(BIN)/python -m pytest

# A run of its own: it has a driver in its process, which the other tests must not.
test-driver: $(VENV)/test $(VENV)/installed ## the driver suite on two simulated GPUs
	GPULEND_SIM_DEVICES=2 GPULEND_PROMISED=$(DRIVER_PROMISED) $(BIN)/python -m pytest tests/driver

# Nothing of it is skipped for want of a package: what is missing fails.
test-kernels: $(VENV)/test $(VENV)/installed ## kernels of CUDA C, right and mistaken, on a simulated GPU, by its driver and through gpulend
	$(BIN)/python -m pytest tests/kernels

test-launch: $(VENV)/test $(VENV)/installed ## launches on arrays of every framework, right and wrong, on two simulated GPUs
	GPULEND_PROMISED=$(LAUNCH_PROMISED) $(BIN)/python -m pytest tests/launch

test-operations: $(VENV)/test $(VENV)/installed ## kernels as operations of torch, JAX and TensorFlow, on a simulated GPU
	GPULEND_PROMISED=$(OPERATIONS_PROMISED) $(BIN)/python -m pytest tests/operations

test-processes: $(VENV)/test $(VENV)/installed opencl ## tickets between processes, on a simulated GPU: pairs of frameworks, kills, forgeries, Ray, Dask, NIXL
	GPULEND_PROMISED=$(PROCESSES_PROMISED) $(BIN)/python -m pytest tests/processes

test-programs: $(VENV)/test $(VENV)/installed ## whole CUDA programs, built by `gpulend build`, on a simulated GPU; needs g++ and make
	GPULEND_PROMISED=cccl,cmake,libdevice,make $(BIN)/python -m pytest tests/programs

# PyCUDA has no wheels: it is built once for all clones, which takes minutes and a C++ compiler.
pycuda: $(VENV)/installed
	scripts/pycuda $(BIN)/python

# PoCL of PyPI builds no kernel on processors that are newer than itself. The system's does.
opencl: $(VENV)/test
	scripts/opencl $(BIN)/python

test-hand-overs: $(VENV)/test $(VENV)/installed pycuda opencl ## hand-overs of GPU memory on two simulated GPUs, between every pair of frameworks
	GPULEND_PROMISED=$(HAND_OVERS_PROMISED) $(BIN)/python -m pytest tests/gpu

# Once for all parts that link with it, and with the simulated GPU in it.
test-library: $(VENV)/installed
	$(PYTHON) scripts/library.py

test-c: $(VENV)/test test-library ## programs of C, C++ and ctypes against the libraries, on a simulated GPU; needs g++
	GPULEND_C=$(abspath $(LIBRARY)) GPULEND_DEVICE=simulated GPULEND_PROMISED=$(C_PROMISED) $(BIN)/python -m pytest tests/c

test-instructions: $(VENV)/test test-library ## instructions of calls from Python, C and Rust beside the table of them; needs valgrind
	GPULEND_C=$(abspath $(LIBRARY)) GPULEND_PROMISED=$(INSTRUCTIONS_PROMISED) $(BIN)/python -m pytest tests/instructions

instructions-update: ## count instructions and write the table
	GPULEND_WRITE_BUDGETS=1 $(MAKE) --no-print-directory test-instructions SYSTEM_PROMISED=valgrind

library: ## build libgpulend.so and libgpulend.a for C programs
	$(PYTHON) scripts/library.py

bundle: ## lay libgpulend, its programs and tests/c into dist/c, whose `run` needs neither Rust nor a network
	$(PYTHON) scripts/bundle.py

install: ## install libgpulend, its headers and the simulated GPU to PREFIX, libraries to LIBDIR in it, below DESTDIR if that is set
	$(PYTHON) scripts/simulator.py
	$(PYTHON) scripts/library.py --prefix $(PREFIX) --libdir $(LIBDIR) --destdir "$(DESTDIR)"

# RELEASE passes options on, such as `--python 3.12`: see scripts/release.py.
release: $(VENV)/release ## build, check, try and list what a release uploads: sources, wheels for x86-64 and aarch64, crates
	$(BIN)/python scripts/release.py $(RELEASE)

# What the code blocks of the pages use too.
PAGES_PROMISED := nixl_cu13,numpy,jax,numba,cuda,warp,ziglang,tvm_ffi,triton,av,cv2,onnxruntime,pyarrow
test-examples: $(VENV)/test $(VENV)/installed pycuda opencl ## the examples and the code blocks of the pages, on the simulated GPU
	GPULEND_PROMISED=$(EXAMPLES_PROMISED),$(CLIENTS_PROMISED),$(PAGES_PROMISED) $(BIN)/python -m pytest tests/examples

# The C programs too, if GPULEND_C names what `make library` laid out, perhaps elsewhere.
# Kernels go through gpulend, for which NVRTC compiles; through the bare driver too, if GPULEND_TEST_PTX names a folder with their PTX:
# see tests/kernels/harness.py, which writes it where a clang is.
test-gpu: ## the tests of drivers, hand-overs, launches and kernels on the real GPU of this machine, by a Python that has pytest, hypothesis, gpulend and frameworks
	GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/gpu
	GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/driver
	GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/launch
	GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/operations
	GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/processes
	GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/programs
	GPULEND_TEST_DRIVER=real GPULEND_TEST_LAUNCH=gpulend $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/kernels
	GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/python/test_passports.py
	test -z "$$GPULEND_C" || GPULEND_TEST_DRIVER=real $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/c
	test -z "$$GPULEND_TEST_PTX" || GPULEND_TEST_DRIVER=real GPULEND_TEST_LAUNCH=driver $(PYTHON) -m pytest -p no:cacheprovider -r fE tests/kernels

test-gpu-memcheck: ## the hand-over tests that hold nothing back, under NVIDIA's compute-sanitizer
	GPULEND_TEST_DRIVER=real GPULEND_TEST_SANITIZER=1 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 \
		$(PYTHON) -m pytest -p no:cacheprovider -r fE tests/gpu

test-long: test-asan test-miri test-pycuda test-valgrind ## long campaigns: many more cases, sanitizers, Miri (needs a nightly toolchain), PyCUDA
	PROPTEST_CASES=200000 cargo test --release -p gpulend
	GPULEND_TEST_FORKS=300 GPULEND_PROMISED=$(LAUNCH_PROMISED) $(BIN)/python -m pytest tests/gpu/test_process.py
	GPULEND_TEST_FORKS=300 GPULEND_PROMISED=$(LAUNCH_PROMISED) $(BIN)/python -m pytest tests/launch/test_threads.py
	GPULEND_TEST_SOAK=10000000 GPULEND_TEST_SEEDS=1 GPULEND_PROMISED=$(LAUNCH_PROMISED) $(BIN)/python -m pytest tests/gpu/test_soak.py
	GPULEND_TEST_SEEDS=100 GPULEND_PROMISED=$(LAUNCH_PROMISED) $(BIN)/python -m pytest tests/gpu/test_soak.py
	GPULEND_TEST_WAYS=,ray GPULEND_PROMISED=$(PROCESSES_PROMISED) $(BIN)/python -m pytest tests/processes/test_doctor.py
	PROPTEST_CASES=200000 cargo test --release -p gpulend-sim --test ptx_fuzz
	GPULEND_FUZZ_INSTRUCTIONS=2000000 cargo test --release -p gpulend-sim --test differential
	GPULEND_PROMISED=$(PROMISED) HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest

test-asan: ## the core's tests under AddressSanitizer
	scripts/asan

test-miri: ## the core's rooms that need no system calls under Miri
	scripts/miri

# Not in `make test`: PyCUDA's own tests take minutes.
test-pycuda: $(VENV)/test $(VENV)/installed pycuda ## PyCUDA, built from PyPI, and its programs on the simulated GPU
	GPULEND_PROMISED=pycuda $(BIN)/python -m pytest tests/clients

test-valgrind: $(VENV)/test $(VENV)/installed ## tests of the extension under valgrind
	scripts/valgrind $(BIN)/python

bench: $(VENV)/test $(VENV)/installed bench-simulator bench-kernels ## time hand-overs beside the best peers, and the simulated GPU
	$(BIN)/python benches/handover.py

bench-c: library ## time wrap, describe, free and launches from C beside the driver calls they contain
	$(CC) -O2 -std=c11 -Wall -Wextra -I$(LIBRARY)/include -o $(LIBRARY)/calls benches/calls.c -L$(LIBRARY)/lib -lgpulend -Wl,-rpath,$(abspath $(LIBRARY))/lib -ldl
	GPULEND_SIM_CHECK=off $(LIBRARY)/calls

bench-gpu: ## time hand-overs of GPU arrays beside the best peers, by a Python that has gpulend, torch, CuPy, JAX and cuda.core
	$(PYTHON) benches/gpu.py

bench-copies: ## time copies between host and GPU beside torch, CuPy and the driver, by a Python that has gpulend, with the others if they are there
	$(PYTHON) benches/copies.py
bench-pool: ## time arrays made and freed, and a trace of allocations, beside the pools of torch, CuPy and cuda.core that are there
	$(PYTHON) benches/pool.py
bench-one-pool: ## train with torch beside CuPy and Numba, with three caches and with one pool, by a Python that has all three
	$(PYTHON) benches/one_pool.py

bench-tickets: ## time leases sent to another process beside torch's queue and cuda.core's buffers, by a Python that has gpulend
	$(PYTHON) benches/tickets.py

bench-ray: ## time arrays between two actors of Ray by gpulend's transports beside Ray's own, by a Python that has gpulend, Ray and torch
	$(PYTHON) benches/ray_arrays.py

bench-launch: ## time launches beside the bare driver and the best peers, by a Python that has gpulend and cuda.core, with torch, CuPy and Triton if they are there
	$(PYTHON) benches/launch.py

bench-operations: ## time a kernel as an operation of torch and JAX beside C++, Triton and Python by hand, by a Python that has gpulend and torch
	$(PYTHON) benches/operations.py

bench-cupy: ## run the examples of CuPy's guide with CuPy and with gpulend, by a Python that has both, on a GPU
	$(PYTHON) benches/cupy_examples.py

bench-simulator: $(VENV)/installed ## time the simulated GPU beside the C library
	$(CC) -O2 -std=c11 -Wall -Wextra -o target/bench-simulator benches/simulator.c -ldl
	GPULEND_SIM_CHECK=off target/bench-simulator python/gpulend/_simulator/libgpulend_sim.so
	GPULEND_SIM_CHECK=memory target/bench-simulator python/gpulend/_simulator/libgpulend_sim.so

bench-kernels: $(VENV)/test $(VENV)/installed ## time kernels on the simulated GPU beside NumPy and numba's simulator
	$(BIN)/python benches/kernels.py

# The benches write what is drawn, with --record; Python alone draws it.
bench-plot: ## draw what the benches recorded in benches/results as docs/speed.svg
	$(PYTHON) benches/plot.py

doctor: $(VENV)/demo $(VENV)/torch $(VENV)/installed ## show which pairs of frameworks exchange, and how
	$(BIN)/gpulend doctor

$(VENV)/docs: $(VENV)/python pyproject.toml
	$(INSTALL) -q --group docs
	@touch $@

docs: $(VENV)/docs $(VENV)/installed ## build the site into site/, and follow its links
	cargo doc --no-deps -p gpulend -p gpulend-capi -p gpulend-sim
	$(BIN)/python scripts/website.py --rust $(or $(CARGO_TARGET_DIR),target)/doc

docs-serve: $(VENV)/docs $(VENV)/installed ## serve the site at localhost:8000
	$(BIN)/python scripts/website.py --serve

clean: ## remove everything that was built or installed here
	rm -rf $(VENV) .pycuda target site .cache python/gpulend/_runtime python/gpulend/_simulator
