#!/bin/sh
# PID 1 of a throw-away host: runs in new namespaces (booted.py), and becomes systemd.
#
#     boot.sh FOLDER ["only try"]
#
# The root file system is this machine's, with everything written going to memory; /tmp, /run, /dev
# are its own. All of it vanishes with the last process.
set -eu
folder=$1

mount -t tmpfs -o mode=755 tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
cd "$folder/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty loop-control loop0 loop1 loop2 loop3 loop4 loop5 loop6 loop7; do
    [ ! -e "/dev/$node" ] || cp -a "/dev/$node" dev/
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
[ $# -eq 1 ] || exit 0

# Nothing of this machine's own: no mounts, no timers, no services, no devices to settle, no clock
# to set.
: >etc/fstab
rm -f etc/systemd/system/multi-user.target.wants/*
for unit in timers.target systemd-udevd.service systemd-udev-trigger.service systemd-timesyncd.service \
    systemd-networkd.service systemd-resolved.service systemd-logind.service getty.target dbus.service dbus.socket systemd-modules-load.service; do
    ln -sf /dev/null "etc/systemd/system/$unit"
done
# As at a real boot, where systemd does it; inside a container it leaves that to who made it. Without
# it a credential stays in the namespace of the helper that wrote it.
mount --make-rshared .
exec env -i container=throw-away PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot . /lib/systemd/systemd --unit=multi-user.target --log-target=journal --show-status=no
