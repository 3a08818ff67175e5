#!/bin/sh
# Install serving-watchdog as a service, or upgrade it: `sudo make install` (docs/install.md).
#
#     tools/install.sh
#
# From the environment: PYTHON (python3), PREFIX (/opt/serving-watchdog), WHEELS (a folder of wheels
# instead of a package index), PIP_ARGS (more words for pip), LINK_WATCHDOG=yes|no (a `watchdog`
# beside `serving-watchdog` in /usr/local/bin; default: where no other command has the name),
# RELOAD=no (no `systemctl daemon-reload`), ASSUME_YES=1 (no questions).
#
# A release is built beside the one that runs and takes its place in one step once it has proved to
# work, so that whatever fails leaves what was there. A second run changes what it must: what systemd
# holds and runs decides, and not what this run has written, so one that was killed is made good.
set -eu
umask 022   # a strict one of root's would hide the program from its user

PREFIX=${PREFIX:-/opt/serving-watchdog}
export PYTHON="${PYTHON:-python3}"
ETC=/etc/serving-watchdog
UNIT=serving-watchdog.service
UNITS=/etc/systemd/system
USER_CONF=/etc/sysusers.d/serving-watchdog.conf
COMMANDS=/usr/local/bin
# Made once the service has been started: from then on it is the operator's whether it runs.
STARTED=$PREFIX/releases/.started
# Which run of the service (systemd's invocation) was there when something was changed under it.
OUTLIVED=$PREFIX/releases/.outlived

say() { printf 'install: %s\n' "$*"; }
die() { printf 'install: %s\n' "$*" >&2; exit 1; }

[ $# -eq 0 ] || die "takes no words, only variables; see the top of $0"
[ -z "${DESTDIR:-}" ] || die "DESTDIR is not for this: a virtual environment knows its own path. Run it inside the image (chroot), or PREFIX=..."
[ "$(id -u)" = 0 ] || die "has to make a user and a unit, so it needs root: sudo make install"
case $PREFIX in
    /*[!A-Za-z0-9/._+-]* | [!/]* | / | */) die "PREFIX=$PREFIX is no absolute path of plain characters" ;;
esac
cd "$(dirname "$0")/.."
command -v "$PYTHON" >/dev/null || die "no $PYTHON on PATH; install Python 3.10 or later, or name one: make install PYTHON=..."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "$PYTHON is too old; 3.10 is the oldest that works: make install PYTHON=..."

booted() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null; }
shows() { systemctl show --property="$1" --value "$UNIT"; }

# --- what is on this host, before anything is touched ---------------------------------------------

unit_text() { sed "s#/opt/serving-watchdog#$PREFIX#g" "systemd/$UNIT"; }

# systemd reads a unit that it does not hold by itself. One that it holds, because it runs or because
# a target wants it, stays as it was read, even after its file and its drop-ins are gone.
held() { [ -n "$(systemctl list-units --all --full --plain --no-legend "$UNIT")" ]; }
reload_pending() { [ "$(shows NeedDaemonReload)" = yes ]; }
reload_needed() {
    booted && held || return 1
    reload_pending || { [ -e "$UNITS/$UNIT" ] && ! unit_text | cmp -s - "$UNITS/$UNIT"; }
}

other_watchdog() {
    for folder in /usr/sbin /usr/bin /sbin /bin /usr/local/sbin /usr/local/bin; do
        file=$folder/watchdog
        if [ -e "$file" ] && ! ours "$file"; then
            echo "$file"
            return
        fi
    done
}

ours() {
    case $(readlink "$1") in
        "$PREFIX"/*) return 0 ;;
        *) return 1 ;;
    esac
}

# NVIDIA/nvidia-container-toolkit#48. With the links in /dev/char, systemd knows the devices' names
# and a container keeps them.
containers_may_lose_gpus() {
    [ ! -e /dev/char/195:255 ] || return 1
    [ -e /dev/nvidiactl ] || command -v nvidia-ctk >/dev/null ||
        command -v nvidia-container-runtime >/dev/null || command -v nvidia-container-cli >/dev/null
}

warn_and_ask() {
    risk=
    other=$(other_watchdog)
    if [ -n "$other" ]; then
        risk=yes
        say "NOTE: $other is another program named watchdog (Debian's drives the hardware watchdog, and"
        say "      exits 0 for words it does not know). It and its files are left alone; call this one"
        say "      by the name serving-watchdog, in scripts by $PREFIX/bin/serving-watchdog"
    fi
    reload=${RELOAD:-yes}
    if ! reload_needed; then
        reload=no
        say "systemctl daemon-reload is not needed"
    elif [ "$reload" = no ]; then
        say "systemd holds another unit; RELOAD=no: you run systemctl daemon-reload yourself"
    elif containers_may_lose_gpus; then
        risk=yes
        say "WARNING: systemd holds another unit, and takes this one by systemctl daemon-reload. On a host with"
        say "      NVIDIA's container toolkit that can take the GPUs away from containers that run, until they"
        say "      are started again (NVIDIA/nvidia-container-toolkit#48). It does not where"
        say "      nvidia-ctk system create-dev-char-symlinks --create-all was run before they started."
        say "      RELOAD=no leaves the reload to you, at a time you choose"
        [ -t 0 ] || [ "${ASSUME_YES:-}" = 1 ] ||
            die "nothing is changed: say RELOAD=no, or ASSUME_YES=1 to go on"
    else
        say "systemd holds another unit, and takes this one by systemctl daemon-reload"
    fi
    [ -n "$risk" ] && [ -t 0 ] && [ "${ASSUME_YES:-}" != 1 ] || return 0
    printf 'install: type YES to go on: '
    read -r answer || answer=
    [ "$answer" = YES ] || die "nothing is changed"
}

# --- the program ----------------------------------------------------------------------------------

# What a release is made from: the same text means the same release.
source_of() {
    "$PYTHON" -c 'import sys; print(sys.version, sys.executable)'
    echo "$PREFIX"
    find watchdog serving_watchdog_boot.py pyproject.toml README.md LICENSE systemd docs/install.md \
        config/watchdog.yaml tools/uninstall.sh \
        -type f ! -path '*/__pycache__/*' -print | LC_ALL=C sort | xargs cksum
}

building=
abandon() {
    status=$?
    [ -z "$building" ] || rm -rf "$building"
    [ "$status" = 0 ] || say "it failed; $what_is_left" >&2
}

# One that was built before and not taken, or left, will do.
built_before() {
    for folder in "$PREFIX"/releases/*; do
        if [ -f "$folder/.source" ] && [ "$(cat "$folder/.source")" = "$source" ] &&
            "$folder/bin/serving-watchdog" --version >/dev/null 2>&1; then
            echo "$folder"
            return
        fi
    done
}

build_release() {
    version=$(sed -n 's/^__version__ *= *"\(.*\)"/\1/p' watchdog/__init__.py)
    building=$PREFIX/releases/$version-$(date -u +%Y%m%dT%H%M%SZ)
    mkdir "$building"
    say "building $building"
    tools/setup.sh "$building" bare >"$building.log" 2>&1 || {
        cat "$building.log" >&2
        rm -f "$building.log"
        die "no virtual environment could be made"
    }
    rm -f "$building.log"
    set -- --disable-pip-version-check --quiet install
    [ -z "${WHEELS:-}" ] || set -- "$@" --no-index --find-links "$WHEELS"
    # shellcheck disable=SC2086  # words
    "$building/bin/python" -m pip "$@" ${PIP_ARGS:-} . ||
        die "pip could not install it; it needs a way to a package index (PIP_ARGS=\"--index-url ...\") or wheels (WHEELS=folder)"
    "$building/bin/serving-watchdog" --version >/dev/null || die "the new program does not start"
    share=$building/share/serving-watchdog
    mkdir -p "$share"
    unit_text >"$share/$UNIT"
    for file in systemd/more-sight.conf systemd/vllm-cache-guard.conf tools/uninstall.sh docs/install.md; do
        sed "s#/opt/serving-watchdog#$PREFIX#g" "$file" >"$share/${file##*/}"
    done
    chmod +x "$share/uninstall.sh"
    cp config/watchdog.yaml "$share/config.yaml"
    printf '%s\n' "$source" >"$building/.source"
    release=$building
    building=
}

# The user that the service has, also where a drop-in names another one.
service_user() {
    user=
    ! booted || user=$(shows User)
    echo "${user:-serving-watchdog}"
}

# With this capability of more-sight.conf modes are no hindrance to it.
reads_all() {
    booted || return 1
    case " $(shows AmbientCapabilities) " in *" cap_dac_read_search "*) ;; *) return 1 ;; esac
}

# What would keep the program from starting is found out while the one that runs still does.
prove() {
    user=$(service_user)
    set --
    if command -v runuser >/dev/null; then
        set -- runuser -u "$user" --
        # the interpreter may lie where only root can reach it, such as below /root
        "$@" "$release/bin/python" -c "" ||
            die "the user $user cannot run $release/bin/python; name an interpreter that everybody may run: make install PYTHON=/usr/bin/python3"
        ! reads_all || set --
    fi
    if [ ! -e "$ETC/config.yaml" ]; then
        "$@" "$release/bin/serving-watchdog" --version >/dev/null || die "the user $user cannot run the program"
        return
    fi
    "$@" test -r "$ETC/config.yaml" ||
        die "the user $user cannot read $ETC/config.yaml: chown root:serving-watchdog $ETC/config.yaml; chmod 640 $ETC/config.yaml"
    "$@" "$release/bin/serving-watchdog" config check --config "$ETC/config.yaml" ||
        die "the program refuses $ETC/config.yaml; mend it, then install again"
}

# A link changes in one step only by a rename.
link() {
    if [ "$(readlink "$2" || true)" != "$1" ]; then
        rm -f "$2.new"
        ln -s "$1" "$2.new"
        mv -Tf "$2.new" "$2"
    fi
}

take_release() {
    before=$(readlink "$PREFIX/current" || true)
    link "releases/${release##*/}" "$PREFIX/current"
    mkdir -p "$PREFIX/bin"
    link ../current/bin/serving-watchdog "$PREFIX/bin/serving-watchdog"
    link ../current/bin/watchdog "$PREFIX/bin/watchdog"
    [ ! -d "$PREFIX/share" ] || [ -L "$PREFIX/share" ] || rm -rf "$PREFIX/share"
    link current/share/serving-watchdog "$PREFIX/share"
    # An environment that was made here by hand, before there was an installer.
    if [ -f "$PREFIX/pyvenv.cfg" ]; then
        say "the virtual environment that was in $PREFIX itself makes way"
        find "$PREFIX/bin" -mindepth 1 ! -name serving-watchdog ! -name watchdog -delete
        rm -rf "$PREFIX/pyvenv.cfg" "${PREFIX:?}/lib" "${PREFIX:?}/lib64" "$PREFIX/include"
    fi
    # The one before stays, for a way back.
    [ "$before" != "releases/${release##*/}" ] || return 0
    for old in "$PREFIX"/releases/*; do
        case releases/${old##*/} in
            "$before" | "releases/${release##*/}") ;;
            *) rm -rf "$old" ;;
        esac
    done
}

# --- its surroundings -----------------------------------------------------------------------------

put() {   # mode from to: only where it differs
    if ! cmp -s "$2" "$3"; then
        mkdir -p "$(dirname "$3")"
        install -m "$1" "$2" "$3.new"
        mv -f "$3.new" "$3"
        return 0
    fi
    return 1
}

make_user() {
    put 644 systemd/sysusers.conf "$USER_CONF" || true
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers "$USER_CONF" || die "the user serving-watchdog could not be made"
        return
    fi
    getent group serving-watchdog >/dev/null || groupadd --system serving-watchdog
    getent passwd serving-watchdog >/dev/null ||
        useradd --system --gid serving-watchdog --home-dir /var/lib/serving-watchdog \
            --shell /usr/sbin/nologin serving-watchdog
    for group in video render systemd-journal; do
        getent group "$group" >/dev/null || groupadd --system "$group"
        usermod --append --groups "$group" serving-watchdog
    done
}

make_folders() {
    install -d -m 750 -o root -g serving-watchdog "$ETC"
    install -d -m 700 -o root -g root "$ETC/credentials"
}

make_config() {
    if [ -e "$ETC/config.yaml" ]; then
        say "$ETC/config.yaml is kept"
        return
    fi
    rm -f "$ETC/config.yaml.new"
    "$PREFIX/bin/serving-watchdog" config init --output "$ETC/config.yaml.new" >/dev/null 2>&1 ||
        cp config/watchdog.yaml "$ETC/config.yaml.new"
    chown root:serving-watchdog "$ETC/config.yaml.new"
    chmod 640 "$ETC/config.yaml.new"
    mv "$ETC/config.yaml.new" "$ETC/config.yaml"
    say "wrote $ETC/config.yaml; look it through"
}

make_commands() {
    mkdir -p "$COMMANDS"
    link "$PREFIX/bin/serving-watchdog" "$COMMANDS/serving-watchdog"
    case ${LINK_WATCHDOG:-auto} in
        no) ;;
        auto) [ -n "$(other_watchdog)" ] || link "$PREFIX/bin/watchdog" "$COMMANDS/watchdog" ;;
        yes)
            if [ -e "$COMMANDS/watchdog" ] && ! ours "$COMMANDS/watchdog"; then
                die "$COMMANDS/watchdog is another program and is left as it is"
            fi
            link "$PREFIX/bin/watchdog" "$COMMANDS/watchdog"
            ;;
        *) die "LINK_WATCHDOG=$LINK_WATCHDOG is neither yes nor no" ;;
    esac
}

# Before a change under it. A run that is still the same one later has to be started again.
note_what_runs() { ! booted || shows InvocationID >"$OUTLIVED"; }

# A wrapper that a drop-in puts before the program may hide which release it is of.
of_another_release() {
    program=$(tr '\0' '\n' <"/proc/$(shows MainPID)/cmdline" 2>/dev/null | sed -n 1p)
    case $program in
        "$release"/*) return 1 ;;
        "$PREFIX"/releases/*) return 0 ;;
        *) return 1 ;;
    esac
}

stale() {
    [ "$reload" = yes ] || of_another_release ||
        [ "$(shows InvocationID)" = "$(cat "$OUTLIVED" 2>/dev/null)" ]
}

# A stop that is under way ends in a known state.
settled() {
    tries=0
    while [ "$(shows ActiveState)" = deactivating ] && [ "$tries" -lt 45 ]; do
        sleep 1
        tries=$((tries + 1))
    done
    shows ActiveState
}

# It comes back when the service has said that it is ready, or has failed for the first time.
restart() { systemctl restart "$UNIT" && [ "$(shows ActiveState)" = active ]; }

start() {
    if ! booted; then
        if command -v systemctl >/dev/null && [ ! -e "$STARTED" ]; then
            systemctl --quiet --root=/ enable "$UNIT"
            : >"$STARTED"
        fi
        say "systemd does not run here; where it does: systemctl enable --now $UNIT"
        return
    fi
    state=$(settled)
    never=no
    [ -e "$STARTED" ] || systemctl is-enabled --quiet "$UNIT" || never=yes
    if reload_pending; then
        # RELOAD=no, or one that was not foreseen, and so not warned of either.
        if [ "$reload" = no ]; then
            case $never/$state in
                yes/*) say "not yet in force: systemctl daemon-reload && systemctl enable --now $UNIT" ;;
                no/inactive) say "not yet in force: systemctl daemon-reload; $UNIT is stopped, and stays so" ;;
                *) say "not yet in force: systemctl daemon-reload && systemctl restart $UNIT" ;;
            esac
            return
        fi
        systemctl daemon-reload
    else
        reload=no
    fi
    case $never/$state in
        yes/*)
            begun=yes
            if [ "$state" != active ] || stale; then
                restart || begun=no
            fi
            # Last, so that who is killed before begins anew; enabled and stopped is the operator's doing.
            systemctl --quiet --no-reload enable "$UNIT"
            [ "$begun" = yes ] || die "installed and enabled, but the service does not start: journalctl -u $UNIT"
            say "$UNIT is enabled and started"
            ;;
        no/inactive)
            say "$UNIT is stopped, and stays so"
            return
            ;;
        no/active | no/reloading | no/refreshing)
            if stale; then
                restart || die "installed, but the service does not start again: journalctl -u $UNIT"
                say "$UNIT is restarted"
            else
                say "nothing has changed"
            fi
            ;;
        *)
            say "$UNIT did not run: $state ($(shows SubState), $(shows Result))"
            restart || die "installed, but the service does not start: journalctl -u $UNIT"
            say "$UNIT is restarted"
            ;;
    esac
    : >"$STARTED"
}

# --------------------------------------------------------------------------------------------------

warn_and_ask

mkdir -p "$PREFIX/releases"
exec 9>"$PREFIX/releases/.lock"
! command -v flock >/dev/null || flock -n 9 || die "another install is under way"

what_is_left="what was installed before is left as it was"
trap abandon EXIT
trap 'exit 1' HUP INT TERM
source=$(source_of)
release=$(built_before)
[ -n "$release" ] || build_release
make_user
make_folders
prove
if [ "$(readlink "$PREFIX/current" || true)" = "releases/${release##*/}" ]; then
    say "$release is up to date"
else
    note_what_runs
fi
take_release
what_is_left="$release is in place; $PREFIX/share/install.md says how to go back"
make_config
make_commands
unit_text >"$PREFIX/releases/.unit"
[ -e "$UNITS/$UNIT" ] || rm -f "$STARTED"   # of an uninstall that did not come to its end
if ! cmp -s "$PREFIX/releases/.unit" "$UNITS/$UNIT"; then
    note_what_runs
    put 644 "$PREFIX/releases/.unit" "$UNITS/$UNIT"
fi
rm -f "$PREFIX/releases/.unit"
start
say "$("$PREFIX/bin/serving-watchdog" --version); next: serving-watchdog doctor, and $PREFIX/share/install.md"
