# shellcheck shell=bash
# What the scripts of this folder share. Sourced by them, not run: goes to the root of the checkout.
set -euo pipefail
started_in=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# A path as the caller meant it, before this script went to the root of the checkout.
absolute() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$started_in/$1" ;;
    esac
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "needs root to run: $*; run that as root once, then start again"
    fi
}

# The packages among the arguments that are not installed.
missing_packages() {
    local have p
    have=$'\n'$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)$'\n'
    for p; do
        [[ $have == *$'\n'"installed $p"$'\n'* ]] || echo "$p"
    done
}

# Installs Debian packages that are missing. The package lists are fetched only when they turn out too old, or are not there.
install_packages() {
    local missing log
    command -v dpkg-query >/dev/null || die "knows Debian and Ubuntu only; install what README.md lists, then run scripts/build"
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    echo "installing" $missing >&2
    log=$(mktemp)
    set -- env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
    if ! as_root "$@" >"$log" 2>&1; then
        as_root apt-get update -qq >&2 || die "apt-get update failed; is the network up?"
        as_root "$@" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; die "could not install" $missing; }
    fi
    rm -f "$log"
}

# Runs a command and shows what it printed only if it fails.
quietly() {
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
}

# Whether a build folder was configured with CUDA.
has_cuda() {
    grep -q 'src/cuda/cuda\.c' "$1/build.ninja"
}

# The instruction sets that this processor can run, as -Dcpu_isas wants them; of a checkout that is not built yet, all that there are.
usable_isas() {
    [ -x build/snug ] || { echo all; return; }
    build/snug info --json | sed 's/.*"usable_kernels":\[\([^]]*\)\].*/\1/; s/"//g'
}

# Of them the first and the widest, for what is not about kernels. Without those of bf16: whether they pay is measured in each run, and what
# is slowed down measures now this and now that.
few_isas() {
    usable_isas | sed 's/,[a-z0-9]*bf16.*//' | tr , '\n' | sed -n '1p;$p' | uniq | paste -sd ,
}

# A folder for the CUDA kernels and their tests, for one architecture: the one that all sources have code for. No GPU is needed, and no machine
# code: the emulator carries out PTX.
setup_cuda() {
    [ -f "$1/build.ninja" ] || meson setup "$1" -Dcuda=enabled -Dgpu_arch=90 -Dgpu_code=ptx -Demulated_gpu=true -Dcpu_isas="$(few_isas)"
}

# run_tests FOLDER [NAME…]: runs the tests of a build folder, all or those named, and closes with 'N passed, N failed[, N skipped]'.
# Returns 1 if anything failed or nothing ran.
run_tests() {
    local dir=$1
    shift
    rm -f "$dir/meson-logs/testlog.txt"
    # cmocka prints TAP if asked; people who run meson test themselves get its usual text. One more than there are processors: some wait.
    CMOCKA_MESSAGE_OUTPUT=TAP meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes $(($(nproc) + 1)) "$@" |
        grep -v -E '^(ninja|Expected Fail|Unexpected Pass|Full log)|^$' || true
    awk -f scripts/count-tests "$dir/meson-logs/testlog.txt"
}

# copy_source FOLDER: what git has or would take, as it is in the checkout.
copy_source() {
    git ls-files -z --cached --others --exclude-standard --deduplicate | tar -c --null --files-from=- --ignore-failed-read | tar -x -C "$1"
}

heading() {
    printf '\n== %s\n' "$*"
}

# Prints a command as one would type it, then runs it.
show() {
    echo "\$ $*"
    "$@"
}

# Half the bytes and twice the speed, on processors that multiply bfloat16, and on GPUs.
bf16_is_faster() {
    build/snug info --json | grep -q '"avx512bf16"' || { [ "$(scripts/gpu-arch)" ] && has_cuda build; }
}
