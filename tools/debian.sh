#!/bin/sh
# Unpack packages of Debian or Ubuntu into a folder: no root, and nothing is installed or started.
#
#     tools/debian.sh DIR PACKAGE...
#
# The package lists are the machine's own where it has them, else they are fetched into .cache: a
# container image usually comes without any.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: ${0##*/} DIR PACKAGE..." >&2
    exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
private=$PWD/.cache/apt
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

: >"$log"
cd "$debs"
if ! apt download "$@"; then
    if ! { privately update && privately download "$@"; }; then
        echo "could not download $*; apt-get says:" >&2
        tail -n 5 "$log" >&2
        exit 1
    fi
fi
for deb in *.deb; do
    dpkg -x "$deb" "$dir"
done
rm -rf "$debs"
