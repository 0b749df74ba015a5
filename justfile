# List the recipes.
_default:
    @just --list --unsorted

# Run all suites that fit this machine and write the report (smoke on a CPU, standard on a CUDA GPU).
bench-all *FLAGS:
    cargo run --release --quiet -p mantissa -- run --all --precompile {{FLAGS}}

# Run one suite with any flags of `mantissa run`: `just bench suites/kernels/matmul.toml -a size=256`.
bench SUITE *FLAGS:
    cargo run --release --quiet -p mantissa -- run {{SUITE}} {{FLAGS}}

# Run the tests that need only a CPU and a C compiler: unit tests, command line, CPU backend (at most 15 minutes from scratch on two cores).
test *FLAGS:
    .ci/test {{FLAGS}}

# Run `just test` and the tests that are slow or need lavapipe, Chromium or PyTorch; tests with missing software are skipped with a reason.
test-all *FLAGS:
    .ci/test-all {{FLAGS}}

# Print the ten slowest crates of a release build into an empty folder, and the total time.
build-times *FLAGS:
    .ci/build-times {{FLAGS}}

# Build the binary for a GPU machine without a compiler: smaller than a release build, slower to build; fails above 25 MB compressed.
dist:
    cargo build --profile dist -p mantissa
    .ci/dist-size target/dist/mantissa

# Check that this machine's NVIDIA GPU computes and measures correctly. Uses the existing release binary.
gpu-accept *FOLDER:
    .ci/gpu/accept {{FOLDER}}

# Compile kernels for a named NVIDIA card without a GPU: `just gpu-prebuild target/gpu "NVIDIA H100 80GB HBM3"`.
[positional-arguments]
gpu-prebuild FOLDER CARD *RUN_ARGUMENTS:
    @.ci/gpu/prebuild "$@"

# Check formatting and lints, as in CI.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --features mantissa/vulkan -- -D warnings

# Compare the run-time speed of two builds with alternating runs: `just compare-builds OLD/mantissa target/release/mantissa`.
compare-builds BEFORE AFTER *ROUNDS:
    .ci/compare-builds {{BEFORE}} {{AFTER}} {{ROUNDS}}

# Run the soak test: two thousand cells in ten minutes while workers and runs are killed; no record may be lost.
soak:
    cargo test --workspace --features mantissa/vulkan --test cli soak -- --ignored --nocapture

# Run suites with burn and with PyTorch, and render a report of both: `just peer peers/race/distilbert.toml` (peers/README.md installs PyTorch).
peer +SUITES_AND_FLAGS:
    cargo build --release --quiet -p mantissa
    peers/side-by-side {{SUITES_AND_FLAGS}}

# Measure time and memory of loading a gigabyte of weights relative to reading the file; fails above the limits of the release binary.
bench-loading *FLAGS:
    cargo build --release --quiet -p mantissa
    python3 peers/loading.py --time 1.5 --memory 1.2 {{FLAGS}}

# Measure the size of a page of many cells, the time to render it, and the time until Chromium can use it: `just bench-page 1000 200`.
bench-page *CELLS_AND_SAMPLES:
    cargo run --release --quiet -p mantissa-report --example page_speed -- {{CELLS_AND_SAMPLES}}

# Measure the time to compare two runs of 10,000 cells; the limit is 2 s.
bench-compare *CELLS:
    cargo run --release --quiet -p mantissa-gate --example compare_speed -- {{CELLS}}

# Measure false alarms and power of the gate: compares a program with itself and with a version that does more work in one cell (two hours).
bench-gate FOLDER *COMPARISONS:
    cargo build --release --quiet -p mantissa --example worsened
    .ci/gate-noise {{FOLDER}} {{COMPARISONS}}

# Measure the speed of planning, of rendering and of the controlled matmul, and the overhead of a cell (criterion).
bench-tool:
    cargo bench -p mantissa-suite -p mantissa-report -p mantissa-precision -p mantissa --bench '*'
