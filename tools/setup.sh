#!/bin/sh
# Make the virtual environment that `make` works with, on a machine that may have python3 alone.
#
#     tools/setup.sh VENV bare|run|dev       bare: pip only; run: the product; dev: and its tools
#
# PYTHON names the interpreter (3.10 or later), default python3. Needs no root, and no pip or venv
# package: Debian and Ubuntu split both off python3, so they are fetched into .cache where they are
# missing. Does nothing where VENV is up to date.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: ${0##*/} VENV bare|run|dev" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
venv=$1
wanted=$2
python=${PYTHON:-python3}

say() { printf '%s\n' "$*" >&2; }
die() { say "setup: $*"; exit 1; }

command -v "$python" >/dev/null || die "no $python on PATH; install Python 3.10 or later, or name one: make PYTHON=..."
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "$python is Python $version and 3.10 is the oldest that works; name another: make PYTHON=..."

# What the environment depends on. One for `dev` serves `run` as well. The folder is in it because
# an environment that was moved or copied along with the checkout points at the old place.
stamp=$venv/.serving-watchdog
now="$version $PWD $(cksum <pyproject.toml)"
if [ -f "$stamp" ] && [ "$(sed 1d "$stamp")" = "$now" ] && [ -x "$venv/bin/python" ]; then
    case "$(sed -n 1p "$stamp") $wanted" in
        "dev "* | "run run") exit 0 ;;
    esac
fi

with_pip_of_the_distribution() {
    # The wheel of pip comes in a package of its own, and runs from inside the wheel.
    command -v apt-get >/dev/null ||
        die "$python has no ensurepip; install what your system calls python3-venv"
    sh tools/debian.sh .cache/pip python3-pip-whl ||
        die "$python has no ensurepip, and python3-pip-whl could not be fetched; install python3-venv"
    wheel=$(find "$PWD/.cache/pip/usr/share/python-wheels" -name 'pip-*.whl' | sort | tail -n 1)
    "$python" -m venv --clear --without-pip "$venv"
    "$venv/bin/python" "$wheel/pip" --disable-pip-version-check --quiet install --no-index "$wheel"
}

usable() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || return 1
    [ "$wanted" != bare ] || return 0
    # Another interpreter took the name, or the checkout was moved: the environment is made anew.
    found=$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [ "$found" = "$version" ] || return 1
    [ ! -f "$stamp" ] || [ "$(sed -n 2p "$stamp" | cut -d' ' -f1-2)" = "$version $PWD" ]
}

if ! usable; then
    say "setup: making $venv (Python $version)"
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv --clear "$venv"
    else
        with_pip_of_the_distribution
    fi
fi

rm -f "$stamp"
case $wanted in
    bare) exit 0 ;;
    run) what=. ;;
    dev) what='.[dev]' ;;
    *) die "what is \"$wanted\"? bare, run or dev" ;;
esac
say "setup: installing into $venv what pyproject.toml asks for ($wanted)"
"$venv/bin/python" -m pip --disable-pip-version-check --quiet install --editable "$what" ||
    die "pip could not install it; what it needs is a way to a package index (PIP_INDEX_URL names another than PyPI)"
printf '%s\n%s\n' "$wanted" "$now" >"$stamp"
