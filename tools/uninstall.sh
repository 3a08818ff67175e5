#!/bin/sh
# Take the service away again: `sudo make uninstall`, or /opt/serving-watchdog/share/uninstall.sh.
# The configuration, the state and the user stay, unless PURGE=1. PREFIX as at the install.
# RELOAD=no and ASSUME_YES=1 mean what they mean there.
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

booted() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null; }
shows() { systemctl show --property="$1" --value "$UNIT"; }

# As in install.sh; this file is copied alone.
containers_may_lose_gpus() {
    [ ! -e /dev/char/195:255 ] || return 1
    [ -e /dev/nvidiactl ] || command -v nvidia-ctk >/dev/null ||
        command -v nvidia-container-runtime >/dev/null || command -v nvidia-container-cli >/dev/null
}

# systemd forgets a unit that is stopped and has no file, but where a target wants it, it keeps it as
# it was read, capabilities and all. An install does the reload, if it is not done here.
forget() {
    booted && [ "$(shows NeedDaemonReload)" = yes ] || return 0
    if [ "${RELOAD:-yes}" = no ]; then
        say "systemd holds the unit until you run systemctl daemon-reload"
    elif containers_may_lose_gpus && [ "${ASSUME_YES:-}" != 1 ]; then
        say "systemd holds the unit until systemctl daemon-reload. Left to you, because here that can take the"
        say "      GPUs away from containers that run (NVIDIA/nvidia-container-toolkit#48); ASSUME_YES=1 does it"
    else
        systemctl daemon-reload
    fi
}

if [ -e "$UNITS/$UNIT" ] || { booted && [ "$(shows ActiveState)" != inactive ]; }; then
    if booted; then
        [ ! -e "$UNITS/$UNIT" ] || systemctl --quiet --no-reload disable "$UNIT"
        systemctl stop "$UNIT" || die "the service does not stop; nothing is removed: systemctl status $UNIT"
        systemctl reset-failed "$UNIT" 2>/dev/null || true
    elif command -v systemctl >/dev/null; then
        systemctl --quiet --root=/ disable "$UNIT"
    fi
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
forget
