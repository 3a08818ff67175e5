#!/bin/sh
# Unpack packages of Debian or Ubuntu into a folder: no root, and nothing is installed or started.
#
#     tools/debian.sh [--suite SUITE] DIR PACKAGE...
#
# The package lists are the machine's own where it has them, else they are fetched into .cache: a
# container image usually comes without any. With --suite they are those of that suite of Debian,
# from the machine's own mirror and under Debian's own key, whatever the machine runs.
set -eu

suite=
if [ "${1-}" = --suite ]; then
    suite=${2-}
    shift 2
fi
if [ $# -lt 2 ]; then
    echo "usage: ${0##*/} [--suite SUITE] DIR PACKAGE..." >&2
    exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
private=$PWD/.cache/apt${suite:+-$suite}
debs=$dir/.debs
rm -rf "$debs"
mkdir -p "$private/lists/partial" "$private/archives/partial" "$debs"
log=$private/log

# Root's apt drops to the user _apt, who may not write here; everybody else's stays who they are.
apt() {
    apt-get -q -o APT::Sandbox::User="$(id -un)" -o Dir::Cache="$private" "$@" >>"$log" 2>&1
}
privately() {
    apt -o Dir::State::Lists="$private/lists" "$@"
}
# A suite is a bonus: whoever cannot reach it shall not wait for it.
of_the_suite() {
    privately -o Dir::Etc::SourceList="$private/sources.list" -o Dir::Etc::SourceParts=- \
        -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 "$@"
}
fetched() {
    if [ -z "$suite" ]; then
        apt download "$@" || { privately update && privately download "$@"; }
        return
    fi
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    if [ ! -r "$key" ]; then
        echo "Debian's key is not here: $key" >>"$log"
        return 1
    fi
    # shellcheck disable=SC2016  # apt-get expands it
    mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -m 1 '/debian/*$') ||
        mirror=http://deb.debian.org/debian
    echo "deb [signed-by=$key] $mirror $suite main" >"$private/sources.list"
    of_the_suite update && of_the_suite download "$@"
}

: >"$log"
cd "$debs"
if ! fetched "$@"; then
    echo "could not download $*; apt-get says:" >&2
    tail -n 5 "$log" >&2
    exit 1
fi
for deb in *.deb; do
    dpkg -x "$deb" "$dir"
done
rm -rf "$debs"
