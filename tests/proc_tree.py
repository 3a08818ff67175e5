"""A made-up /proc and the parts of /sys that say who holds a GPU, file by file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

FIRST_NAMESPACE = "pid:[4026531836]"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


class Proc:
    """`root` is the made-up /proc; process 1 exists and this is the first namespace."""

    def __init__(self, root: Path, namespace: str = FIRST_NAMESPACE) -> None:
        self.root = root
        link(root / "self/ns/pid", namespace)
        self.add(1, "init", parent=0)

    def add(
        self,
        pid: int,
        command: str | Sequence[str] = "python",
        *,
        parent: int = 1,
        group: str = "/",
        state: str = "S",
        threads: int = 1,
        flags: int = 0x400000,
        ticks: int = 100,
        opens: Sequence[tuple[str, str]] = (),
    ) -> Path:
        """
        Let a process run; `command` is split at blanks where it is no list of words.

        `ticks`: when it began, in hundredths of a second after the boot. `opens`: name and fdinfo
        of each open file, from descriptor 0.
        """
        place = self.root / str(pid)
        rest = f"{state} {parent} 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 {ticks} 0"
        write(place / "stat", f"{pid} (a ) b) {rest}\n")
        words = command.split() if isinstance(command, str) else command
        write(place / "cmdline", "".join(f"{word}\0" for word in words))
        write(place / "cgroup", f"0::{group}\n")
        (place / "fd").mkdir()
        for number, (name, info) in enumerate(opens):
            link(place / f"fd/{number}", name)
            write(place / f"fdinfo/{number}", info)
        return place

    def listen(self, port: int, inode: int, pid: int | str = "") -> None:
        """Let a socket listen, in the host's network or in that of a process."""
        table = self.root / str(pid) / "net/tcp"
        head = "  sl  local_address rem_address   st tx_queue ...\n" if not table.exists() else ""
        table.parent.mkdir(parents=True, exist_ok=True)
        with table.open("a") as file:
            file.write(
                f"{head}   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 "
                f"00:00000000 00000000     0        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
            )

    def blind(self, pid: int) -> None:
        """Make the open files of a process unreadable, whoever asks."""
        folder = self.root / str(pid) / "fd"
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        folder.write_text("")  # NotADirectoryError is an OSError like PermissionError

    def nvidia(self, *addresses: str) -> None:
        """NVIDIA's GPUs, by the number of their device file."""
        for minor, address in enumerate(addresses):
            write(
                self.root / f"driver/nvidia/gpus/{address}/information",
                f"Model: \t\t NVIDIA\nBus Location: \t {address}\nDevice Minor: \t {minor}\n",
            )


def drm(address: str, kib: int | None, driver: str = "amdgpu") -> str:
    """What the kernel tells of an open DRM file."""
    memory = "" if kib is None else f"drm-memory-vram:\t{kib} KiB\n"
    return (
        f"pos:\t0\nflags:\t02100002\ndrm-driver:\t{driver}\ndrm-client-id:\t7\n"
        f"drm-pdev:\t{address}\n{memory}drm-engine-gfx:\t0 ns\n"
    )


def kfd(sys: Path, gpus: Mapping[int, str], books: Mapping[int, Mapping[int, int]]) -> None:
    """`gpus`: KFD's number to address; `books`: bytes by process and number."""
    base = sys / "class/kfd/kfd"
    write(base / "topology/nodes/0/gpu_id", "0\n")
    write(base / "topology/nodes/0/properties", "cpu_cores_count 16\nlocation_id 0\n")
    for node, (number, address) in enumerate(gpus.items(), 1):
        domain, bus, rest = address.split(":")
        device, function = rest.split(".")
        at = int(bus, 16) << 8 | int(device, 16) << 3 | int(function)
        write(base / f"topology/nodes/{node}/gpu_id", f"{number}\n")
        properties = f"simd_count 128\nlocation_id {at}\ndomain {int(domain, 16)}\n"
        write(base / f"topology/nodes/{node}/properties", properties)
    (base / "proc").mkdir(parents=True)
    for pid, memory in books.items():
        (base / f"proc/{pid}").mkdir()
        for number, amount in memory.items():
            write(base / f"proc/{pid}/vram_{number}", f"{amount}\n")


def card(
    sys: Path,
    address: str,
    *,
    root: str = "pci0000:00",
    vendor: str = "0x1002",
    numa: int = 0,
    cpus: str = "",
    **files: str,
) -> Path:
    """One GPU right below a root port, without a switch."""
    port = f"0000:{root[-2:]}:01.0"
    place = sys / "devices" / root / port / address
    write(place / "vendor", f"{vendor}\n")
    write(place / "class", "0x030000\n")
    write(place / "device", "0x7551\n")
    write(place / "numa_node", f"{numa}\n")
    if cpus:
        write(place / "local_cpulist", f"{cpus}\n")
    for name, text in files.items():
        write(place / name, text)
    write(sys / f"devices/{root}/{port}/vendor", "0x8086\n")
    bus = sys / "bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    for name, at in ((address, place), (port, place.parent)):
        if not (bus / name).is_symlink():
            (bus / name).symlink_to(at)
    return place


def processors(sys: Path, *packages: int) -> None:
    """The socket of each processor, from 0."""
    for cpu, package in enumerate(packages):
        file = sys / f"devices/system/cpu/cpu{cpu}/topology/physical_package_id"
        write(file, f"{package}\n")
