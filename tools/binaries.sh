#!/bin/sh
# Provide the real Prometheus and Alertmanager that tests run against, without root.
#
#     tools/binaries.sh DIR
#
# What is not on PATH is unpacked from the distribution's packages below DIR; `make` puts
# DIR/usr/bin on PATH. Does nothing where they are there already.
set -eu

dir=$1
tools=$(dirname "$0")
missing=
have() { command -v "$1" >/dev/null || [ -x "$dir/usr/bin/$1" ]; }
{ have prometheus && have promtool; } || missing="$missing prometheus"
have prometheus-alertmanager || missing="$missing prometheus-alertmanager"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "binaries: not on PATH:$missing; tests that need them fail" >&2
    exit 0
fi
echo "binaries: unpacking$missing into $dir" >&2
# shellcheck disable=SC2086  # a list of names
sh "$tools/debian.sh" "$dir" $missing ||
    echo "binaries: tests that need$missing fail" >&2
