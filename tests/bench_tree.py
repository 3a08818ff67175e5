"""
Builds trees like /sys of hosts with GPUs: the seeds' bench, and others with their peculiarities.

    bench = Bench(tmp_path)
    card = bench.card("0000:00:03.0 8086:6f08", "0000:03:00.0 1002:1478", "0000:04:00.0 1002:1479",
                      "0000:05:00.0 1002:7551", numa=0, generation=3, width=16)
    card.trained(1, 16)                                # as amdgpu would find it at its start
    card.errors(card.slot, "correctable", BadTLP=6655)
    tree = Tree(bench.root)

A card is written as its chain, from the root port to the function. The layout, file names and
texts are the kernel's; what the driver prints follows amdgpu of Linux 6.13 and later.
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

SPEED = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
GIB = 1 << 30

CORRECTABLE = "RxErr BadTLP BadDLLP Rollover Timeout NonFatalErr CorrIntErr HeaderOF"
UNCORRECTABLE = (
    "Undefined DLP SDES TLP FCP CmpltTO CmpltAbrt UnxCmplt RxOF MalfTLP ECRC UnsupReq ACSViol "
    "UncorrIntErr BlockedTLP AtomicOpBlocked TLPBlockedErr PoisonTLPBlocked"
)
TOTALS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}
CLASSES = {"bridge": "0x060400", "gpu": "0x030000", "audio": "0x040300"}
CLOCKS = (250, 616, 1143)  # MHz of the three levels of an R9700


def pp_dpm_pcie(generation: int, width: int, *, star: bool = True, clocks=CLOCKS) -> str:
    """Rows as on an Intel host: amdgpu clips every level to the link that it found at its start."""
    mark = "*" if star else ""
    link = f"{SPEED[generation]}GT/s, x{width}"
    return "".join(f"{i}: {link} {mhz}Mhz {mark}\n" for i, mhz in enumerate(clocks))


def gpu_metrics(tenths: int, width: int, version: tuple[int, int] = (1, 3), size=120, at=74):
    """Return a binary gpu_metrics file: the speed in 0.1 GT/s, all other fields absent (ones)."""
    data = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", data, 0, size, *version)
    struct.pack_into("<HH", data, at, width, tenths)
    return bytes(data)


def aer_text(kind: str, **counts: int) -> str:
    """Return one aer_dev_* file as Linux 5.2 and later print it."""
    names = CORRECTABLE if kind == "correctable" else UNCORRECTABLE
    lines = [f"{name} {counts.get(name, 0)}" for name in names.split()]
    return "\n".join([*lines, f"TOTAL_ERR_{TOTALS[kind]} {sum(counts.values())}", ""])


@dataclass
class Card:
    """A card in a bench: what can happen to it. Addresses are of PCI, paths below the root."""

    bench: Bench
    chain: tuple[str, ...]
    slot: str
    switch: bool

    @property
    def address(self) -> str:
        return self.chain[-1]

    @property
    def end(self) -> str:
        """The card's end of the slot's link."""
        return self.chain[min(self.chain.index(self.slot) + 1, len(self.chain) - 1)]

    def folder(self, at: str = "") -> Path:
        """Return the real directory of a device of the chain, the function's by default."""
        return self.bench.folder(at or self.address)

    def write(self, file: str, content: str | bytes, at: str = "") -> None:
        """Write a file of a device of the chain, the function by default."""
        self.bench.write(self.folder(at) / file, content)

    def lacks(self, file: str, at: str = "") -> None:
        (self.folder(at) / file).unlink()

    def fails(self, file: str, error: str, at: str = "") -> None:
        """Let every read of a file end with an error such as EBUSY."""
        self.lacks(file, at)
        self.write(f"{file}.errno", error, at)

    def linked(self, generation: int, width: int) -> None:
        """Both ends of the slot's link say this; the driver's table is left as it is."""
        for end in {self.slot, self.end}:
            self.bench.link(self.folder(end), generation, width)

    def trained(self, generation: int, width: int) -> None:
        """Train the link before the driver starts: its table knows no other link."""
        self.linked(generation, width)
        if (self.folder() / "pp_dpm_pcie").exists():
            self.write("pp_dpm_pcie", pp_dpm_pcie(generation, width))
        self._metrics(generation, width)

    def fell(self, generation: int, width: int) -> None:
        """Train the link down under the running driver: its table has no such row, so no star."""
        self.linked(generation, width)
        rows = (self.folder() / "pp_dpm_pcie").read_text()
        self.write("pp_dpm_pcie", rows.replace("*", ""))
        self._metrics(generation, width)

    def _metrics(self, generation: int, width: int) -> None:
        if (self.folder() / "gpu_metrics").exists():
            tenths = round(float(SPEED[generation]) * 10)
            self.write("gpu_metrics", gpu_metrics(tenths, width))

    def errors(self, at: str, kind: str, **counts: int) -> None:
        """Set error counters, e.g. errors(card.slot, "correctable", BadTLP=6655)."""
        self.write(f"aer_dev_{kind}", aer_text(kind, **counts), at)
        if at == self.chain[0]:
            word = TOTALS[kind].lower()
            self.write(f"aer_rootport_total_err_{word}", f"{sum(counts.values())}\n", at)

    def busy(self, percent: int) -> None:
        self.write("gpu_busy_percent", f"{percent}\n")

    def memory(self, used: int, total: int = 32 * GIB) -> None:
        self.write("mem_info_vram_used", f"{used}\n")
        self.write("mem_info_vram_total", f"{total}\n")

    def driven_by(self, name: str) -> None:
        """Hand the function to another driver, or to none."""
        lines = (self.folder() / "uevent").read_text().splitlines()[1:]
        self.lacks("driver")
        self.write("uevent", "".join(f"{line}\n" for line in lines))
        if name:
            self.bench.driver(self.folder(), name)

    def suspended(self) -> None:
        self.write("power/runtime_status", "suspended\n")

    def gone(self) -> None:
        """Take the card off the bus; its slot's port stays and has no link."""
        below = self.bench.folder(self.end)
        for link in self.bench.links():
            if below in (real := link.resolve()).parents or real == below:
                link.unlink()
        shutil.rmtree(below)
        if self.slot != self.address:
            self.write("current_link_width", "0\n", self.slot)
            self.write("current_link_speed", "2.5 GT/s PCIe\n", self.slot)


class Bench:
    """A tree below `root`, which stands for /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cards: list[Card] = []
        (root / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
        (root / "class/drm").mkdir(parents=True, exist_ok=True)

    def __getitem__(self, address: str) -> Card:
        """Return the card whose function has this address, short or whole."""
        return next(card for card in self.cards if card.address.endswith(address))

    def card(
        self, *chain: str, numa: int = -1, generation: int = 3, width: int = 16,
        inside: int = 5, above: tuple[int, int] = (3, 16), driver: str = "",
    ) -> Card:  # fmt: skip
        """
        Plug in a card; each part of its chain is "<address> <vendor>:<device>".

        `generation` and `width` are the slot's link, `inside` the generation of the links below
        the card's own switch, `above` the links between a board's switch and the root port.
        """
        parts = [part.split() for part in chain]
        addresses = tuple(address for address, _ in parts)
        bridges = [address for address, who in parts[:-1] if not who.startswith("1002:")]
        slot = bridges[-1] if bridges else addresses[-1]
        at = addresses.index(slot)
        path = self.root / "devices" / f"pci{addresses[0][:7]}"
        for i, (address, who) in enumerate(parts):
            path /= address
            self.device(path, who, "bridge" if i < len(parts) - 1 else "gpu", numa)
            link = above if i < at else (generation, width) if i < at + 2 else (inside, 16)
            self.link(path, *link)
            if who.startswith("1002:"):
                self.write(path / "max_link_speed", f"{SPEED[inside]} GT/s PCIe\n")
        self._root_port(self.folder(addresses[0]))
        card = Card(self, addresses, slot, switch=at < len(parts) - 2)
        self.cards.append(card)
        self._drm(path)
        vendor = parts[-1][1][:4]
        self.driver(path, driver or {"1002": "amdgpu", "10de": "nvidia"}[vendor])
        if vendor == "1002" and driver in ("", "amdgpu"):
            self._amdgpu(card, generation, width)
        return card

    def device(self, path: Path, who: str, kind: str, numa: int = -1) -> None:
        """Write one PCI device: identity, power, NUMA node, error counters, and its bus link."""
        vendor, device = who.split(":")
        self.write(path / "vendor", f"0x{vendor}\n")
        self.write(path / "device", f"0x{device}\n")
        self.write(path / "class", f"{CLASSES[kind]}\n")
        self.write(path / "uevent", f"PCI_ID={who.upper()}\nPCI_SLOT_NAME={path.name}\n")
        self.write(path / "numa_node", f"{numa}\n")
        self.write(path / "power/runtime_status", "active\n")
        for word in TOTALS:
            self.write(path / f"aer_dev_{word}", aer_text(word))
        self._symlink(self.root / "bus/pci/devices" / path.name, path)

    def link(self, path: Path, generation: int, width: int) -> None:
        """Write the link files of one device; its maxima only once."""
        speed = f"{SPEED[generation]} GT/s PCIe\n"
        self.write(path / "current_link_speed", speed)
        self.write(path / "current_link_width", f"{width}\n")
        if not (path / "max_link_speed").exists():
            self.write(path / "max_link_speed", speed)
            self.write(path / "max_link_width", f"{width}\n")

    def folder(self, address: str) -> Path:
        return (self.root / "bus/pci/devices" / address).resolve()

    def links(self) -> list[Path]:
        """Return the links that lead to devices."""
        folders = ("bus/pci/devices", "class/drm")
        return [link for folder in folders for link in (self.root / folder).iterdir()]

    def write(self, path: Path, content: str | bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def _root_port(self, path: Path) -> None:
        for word in TOTALS.values():
            self.write(path / f"aer_rootport_total_err_{word.lower()}", "0\n")

    def _drm(self, path: Path) -> None:
        """Write card1 and renderD129 for the second GPU; card0 is the board's own graphics."""
        number = len(self.cards)
        for name, minor in ((f"card{number}", number), (f"renderD{128 + number}", 128 + number)):
            self.write(path / "drm" / name / "dev", f"226:{minor}\n")
            self._symlink(path / "drm" / name / "device", path)
            self._symlink(self.root / "class/drm" / name, path / "drm" / name)

    def driver(self, path: Path, name: str) -> None:
        """Bind a function to a driver: the link, and the line in uevent."""
        folder = self.root / "bus/pci/drivers" / name
        folder.mkdir(parents=True, exist_ok=True)
        self._symlink(path / "driver", folder)
        uevent = path / "uevent"
        self.write(uevent, f"DRIVER={name}\n{uevent.read_text()}")

    def _amdgpu(self, card: Card, generation: int, width: int) -> None:
        card.write("pp_dpm_pcie", pp_dpm_pcie(generation, width))
        card.write("gpu_metrics", gpu_metrics(round(float(SPEED[generation]) * 10), width))
        card.busy(0)
        card.memory(used=28 * GIB)

    def _symlink(self, at: Path, to: Path) -> None:
        at.parent.mkdir(parents=True, exist_ok=True)
        if not at.is_symlink():
            at.symlink_to(os.path.relpath(to, at.parent))


def umockdev(root: Path) -> str:
    """Describe a tree's devices in the language of umockdev, which fakes /sys for a program."""
    links = [*(root / "bus/pci/devices").iterdir(), *(root / "class/drm").iterdir()]
    found = sorted(link.resolve() for link in links)  # parents first
    return "\n".join(_described(path, path.relative_to(root.resolve())) for path in found)


def _described(path: Path, told: Path) -> str:
    lines = [f"P: /{told}", f"E: SUBSYSTEM={'drm' if 'drm' in told.parts else 'pci'}"]
    for file in [*sorted(path.iterdir()), *sorted(path.glob("power/*"))]:
        name = file.relative_to(path)
        if file.is_symlink():
            lines.append(f"L: {name}={file.readlink()}")
        elif file.name == "uevent":
            lines += [f"E: {line}" for line in file.read_text().splitlines()]
        elif file.name == "gpu_metrics":
            lines.append(f"H: {name}={file.read_bytes().hex().upper()}")
        elif file.is_file():
            text = file.read_text().replace("\\", "\\\\").replace("\n", "\\n")
            lines.append(f"A: {name}={text}")
    return "\n".join([*lines, ""])


# --- hosts ---------------------------------------------------------------------------------------


def r9700(bench: Bench, port: str, bus: int, *, numa: int, width: int = 16) -> Card:
    """Plug a Radeon AI PRO R9700 into a port: its own switch takes `bus` and the next two."""
    domain = port[:4]
    card = bench.card(
        port,
        f"{domain}:{bus:02x}:00.0 1002:1478",
        f"{domain}:{bus + 1:02x}:00.0 1002:1479",
        f"{domain}:{bus + 2:02x}:00.0 1002:7551",
        numa=numa,
        width=width,
    )
    sound = card.folder(card.chain[-2]) / f"{domain}:{bus + 2:02x}:00.1"
    bench.device(sound, "1002:ab40", "audio", numa)
    return card


def seeds_bench(root: Path) -> Bench:
    """
    Return the bench of the incident: two sockets of Broadwell-EP, two R9700 on each.

    Every slot is Gen3 x16 but that of 09:00.0, which is x8 by bifurcation. The functions of all
    four say 32.0 GT/s x16, as lspci prints them: that is the link inside the card.
    """
    bench = Bench(root)
    r9700(bench, "0000:00:02.0 8086:6f04", 0x03, numa=0)
    r9700(bench, "0000:00:03.0 8086:6f08", 0x07, numa=0, width=8)
    r9700(bench, "0000:80:02.0 8086:6f04", 0x84, numa=1)
    r9700(bench, "0000:80:03.0 8086:6f08", 0x87, numa=1)
    # The graphics of the board's management chip: no GPU of ours.
    graphics = root / "devices/pci0000:00/0000:00:1c.4/0000:0b:00.0/0000:0c:00.0"
    bench.device(graphics.parent.parent, "8086:8d18", "bridge", 0)
    bench.device(graphics.parent, "1a03:1150", "bridge", 0)
    bench.device(graphics, "1a03:2000", "gpu", 0)
    return bench


def geforce(bench: Bench) -> Card:
    """Plug in an RTX 3090: no switch on the card, so its function is the slot's other end."""
    return bench.card("0000:00:01.0 8086:6f02", "0000:01:00.0 10de:2204", numa=0, generation=3)


def polaris(bench: Bench) -> Card:
    """Plug in an RX 580: no switch on the card, and rows whose width is a constant."""
    card = bench.card("0000:00:01.0 8086:6f02", "0000:01:00.0 1002:67df", numa=0)
    card.lacks("gpu_metrics")
    card.write("pp_dpm_pcie", "0: 2.5GT/s, x8 \n1: 8.0GT/s, x16 *\n")
    return card


def behind_board_switch(bench: Bench) -> list[Card]:
    """Plug two RTX 3090 into a board whose PLX switch has one x16 link to the root port."""
    above = ("0000:00:03.0 8086:6f08", "0000:03:00.0 10b5:8747")
    first = bench.card(*above, "0000:04:08.0 10b5:8747", "0000:05:00.0 10de:2204", numa=0)
    second = bench.card(*above, "0000:04:10.0 10b5:8747", "0000:06:00.0 10de:2204", numa=0)
    return [first, second]


def on_amd_host(bench: Bench) -> Card:
    """Plug an R9700 into an EPYC host, where the link shifts down while the card is idle."""
    card = bench.card(
        "0000:40:01.1 1022:1483",
        "0000:41:00.0 1002:1478",
        "0000:42:00.0 1002:1479",
        "0000:43:00.0 1002:7551",
        numa=0,
        generation=4,
    )
    card.write("pp_dpm_pcie", "0: 2.5GT/s, x16 250Mhz \n1: 16.0GT/s, x16 1143Mhz *\n")
    return card
