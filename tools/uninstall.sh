#!/bin/sh
# Take the service away again: `sudo make uninstall`, or /opt/serving-watchdog/share/uninstall.sh.
# The configuration, the state and the user stay, unless PURGE=1. PREFIX as at the install.
set -eu

PREFIX=${PREFIX:-/opt/serving-watchdog}
ETC=/etc/serving-watchdog
STATE=/var/lib/serving-watchdog
UNIT=serving-watchdog.service
UNITS=/etc/systemd/system

say() { printf 'uninstall: %s\n' "$*"; }
die() { printf 'uninstall: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "needs root: sudo make uninstall"
case $PREFIX in
    / | */ | [!/]*) die "PREFIX=$PREFIX is no folder of this program" ;;
esac
if [ -e "$PREFIX" ] && [ ! -d "$PREFIX/releases" ]; then
    die "$PREFIX was not made by the installer (it has no releases/), and is left as it is"
fi

if [ -e "$UNITS/$UNIT" ]; then
    if [ -d /run/systemd/system ] && command -v systemctl >/dev/null; then
        systemctl --quiet --no-reload disable "$UNIT"
        systemctl stop "$UNIT" || die "the service does not stop; nothing is removed: systemctl status $UNIT"
        systemctl reset-failed "$UNIT" 2>/dev/null || true
    elif command -v systemctl >/dev/null; then
        systemctl --quiet --root=/ disable "$UNIT"
    fi
    # systemd forgets a unit that is stopped and has no file, so no daemon-reload is needed.
    rm -f "$UNITS/$UNIT"
    say "$UNIT is stopped and removed"
fi
for name in serving-watchdog watchdog; do
    link=/usr/local/bin/$name
    case $(readlink "$link" || true) in
        "$PREFIX"/*) rm -f "$link" ;;
    esac
done
rm -f /etc/sysusers.d/serving-watchdog.conf
rm -rf "$PREFIX"
say "$PREFIX is removed"

dropins=$UNITS/$UNIT.d
if [ "${PURGE:-}" = 1 ]; then
    rm -rf "$ETC" "$STATE" "$dropins"
    if getent passwd serving-watchdog >/dev/null; then
        userdel serving-watchdog 2>/dev/null || say "the user serving-watchdog could not be removed"
    fi
    say "the configuration, the state and the user are removed too"
else
    kept=
    for place in "$ETC" "$STATE" "$dropins"; do
        [ ! -e "$place" ] || kept="$kept $place"
    done
    say "kept:${kept:- nothing} and the user serving-watchdog; PURGE=1 removes them as well"
fi
