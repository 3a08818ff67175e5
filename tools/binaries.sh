#!/bin/sh
# Provide the real programs that tests run against, without root: Prometheus, Alertmanager, openssl.
#
#     tools/binaries.sh DIR [SUITE...]
#
# What is not on PATH is unpacked from the distribution's packages below DIR; `make` puts
# DIR/usr/bin on PATH. Does nothing where they are there already.
#
# Each SUITE of Debian gives the Alertmanager that it has, below DIR-SUITE: newer ones, which the
# same tests run against. Those tests are skipped where a suite cannot be reached.
set -eu

dir=$1
shift
tools=$(dirname "$0")

# A program may look for its files where its package would have put them. It is moved to libexec,
# and what takes its place says where they are.
wrap() {
    root=$1
    program=$2
    mkdir -p "$root/usr/libexec"
    mv "$root/usr/bin/$program" "$root/usr/libexec/$program"
    {
        echo '#!/bin/sh'
        # shellcheck disable=SC2016  # expanded when it runs: the folder may be moved
        echo 'usr=$(cd "${0%/*}/.." && pwd)'
        cat
        # shellcheck disable=SC2016
        printf 'exec "$usr/libexec/%s" "$@"\n' "$program"
    } >"$root/usr/bin/$program"
    chmod +x "$root/usr/bin/$program"
}

# Debian's reads its templates from this one folder and has no option for another. The path in
# the program becomes one of the same length that means "the folder that is open as file 9".
wrap_alertmanager() {
    wrap "$1" prometheus-alertmanager <<'WRAPPER'
exec 9<"$usr/share/prometheus/alertmanager"
WRAPPER
    path=/usr/share/prometheus/alertmanager
    same=/proc/self/fd/9/./././././././././
    patched=$1/usr/libexec/.patched
    LC_ALL=C sed "s#$path#$same#g" "$1/usr/libexec/prometheus-alertmanager" >"$patched"
    chmod +x "$patched"
    mv "$patched" "$1/usr/libexec/prometheus-alertmanager"
}

# Says nothing more for a day where it failed: an offline machine shall not wait at each `make`.
newer() {
    suite=$1
    place=$dir-$suite
    [ ! -x "$place/usr/bin/prometheus-alertmanager" ] || return 0
    [ -z "$(find "$place/tried" -mtime -1 2>/dev/null)" ] || return 0
    mkdir -p "$place"
    echo "binaries: unpacking the Alertmanager of Debian $suite into $place" >&2
    if sh "$tools/debian.sh" --suite "$suite" "$place/new" prometheus-alertmanager; then
        wrap_alertmanager "$place/new"
        mv "$place/new/usr" "$place/usr"
    else
        echo "binaries: the tests that need it are skipped; the next try is in a day" >&2
        touch "$place/tried"
    fi
    rm -rf "$place/new"
}

missing=
have() { command -v "$1" >/dev/null || [ -x "$dir/usr/bin/$1" ]; }
{ have prometheus && have promtool; } || missing="$missing prometheus"
have prometheus-alertmanager || missing="$missing prometheus-alertmanager"
have openssl || missing="$missing openssl"

if ! command -v apt-get >/dev/null; then
    [ -z "$missing" ] || echo "binaries: not on PATH:$missing; the tests that need them fail" >&2
    exit 0
fi
for suite in "$@"; do
    newer "$suite" || true
done
[ -n "$missing" ] || exit 0
echo "binaries: unpacking$missing into $dir" >&2

# shellcheck disable=SC2086  # a list of names
if ! sh "$tools/debian.sh" "$dir" $missing; then
    echo "binaries: the tests that need$missing fail" >&2
    exit 0
fi
case $missing in *openssl*)
    wrap "$dir" openssl <<'WRAPPER'
export OPENSSL_CONF="${OPENSSL_CONF:-$usr/../etc/ssl/openssl.cnf}"
WRAPPER
    ;;
esac
case $missing in *prometheus-alertmanager*)
    wrap_alertmanager "$dir"
    ;;
esac
