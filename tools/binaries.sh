#!/bin/sh
# Provide the real programs that tests run against, without root: Prometheus, Alertmanager, openssl.
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
have openssl || missing="$missing openssl"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "binaries: not on PATH:$missing; the tests that need them fail" >&2
    exit 0
fi
echo "binaries: unpacking$missing into $dir" >&2

# A program may look for its files where its package would have put them. It is moved to libexec,
# and what takes its place says where they are.
wrap() {
    program=$1
    mkdir -p "$dir/usr/libexec"
    mv "$dir/usr/bin/$program" "$dir/usr/libexec/$program"
    {
        echo '#!/bin/sh'
        # shellcheck disable=SC2016  # expanded when it runs: the folder may be moved
        echo 'usr=$(cd "${0%/*}/.." && pwd)'
        cat
        # shellcheck disable=SC2016
        printf 'exec "$usr/libexec/%s" "$@"\n' "$program"
    } >"$dir/usr/bin/$program"
    chmod +x "$dir/usr/bin/$program"
}

# shellcheck disable=SC2086  # a list of names
if ! sh "$tools/debian.sh" "$dir" $missing; then
    echo "binaries: the tests that need$missing fail" >&2
    exit 0
fi
case $missing in *openssl*)
    wrap openssl <<'WRAPPER'
export OPENSSL_CONF="${OPENSSL_CONF:-$usr/../etc/ssl/openssl.cnf}"
WRAPPER
    ;;
esac
case $missing in *prometheus-alertmanager*)
    # Debian's reads its templates from this one folder and has no option for another. The path in
    # the program becomes one of the same length that means "the folder that is open as file 9".
    wrap prometheus-alertmanager <<'WRAPPER'
exec 9<"$usr/share/prometheus/alertmanager"
WRAPPER
    path=/usr/share/prometheus/alertmanager
    same=/proc/self/fd/9/./././././././././
    patched=$dir/usr/libexec/.patched
    LC_ALL=C sed "s#$path#$same#g" "$dir/usr/libexec/prometheus-alertmanager" >"$patched"
    chmod +x "$patched"
    mv "$patched" "$dir/usr/libexec/prometheus-alertmanager"
    ;;
esac
