"""A report, as plain data, to one row for each slot: what its findings and facts say of a link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.finding import Verdict, worst
from watchdog.domain.gpu import Card
from watchdog.domain.link import Slot, declared_of, told
from watchdog.domain.link_errors import flat

Data = Mapping[str, Any]

LINK, APART, ERRORS, MISSING = (
    "GpuLinkDegraded", "GpuLinkWitnessesDisagree", "GpuLinkErrors", "GpuMissing",
)  # fmt: skip
LINKS: Final = (LINK, APART, ERRORS, MISSING)
"""The alertnames that are about links."""

SOURCES: Final = ("gpus", "pcie_sysfs", "nvml")
"""Probes whose blindness is blindness about links."""

_WHOLE: Final = re.compile(r"(Gen\d|\d+(\.\d+)? GT/s) x\d+")


class Row(NamedTuple):
    """
    One slot. `link`, `errors` and `presence` are the evidence of its findings, empty or None
    where there is none: `errors` is None where no counter was read. `facts` are of sysfs.
    """

    slot: str
    findings: tuple[Data, ...]
    link: Data
    errors: Data | None
    presence: Data
    facts: Data
    declared: Slot | None

    @property
    def there(self) -> bool:
        """Whether a card was seen in this slot."""
        return bool(self.link) or bool(self.presence.get("gpu"))

    @property
    def undeclared(self) -> bool:
        """Whether there is a card of which nothing is declared."""
        return self.there and self.declared is None

    @property
    def waits(self) -> bool:
        """Whether its speed cannot be judged now: it shifts down when idle, and may be idle."""
        card = Card(vendor=str(self.facts.get("vendor")), host=str(self.facts.get("host")))
        return self.asleep or (card.shifts_speed and self.link.get("busy") is not True)

    @property
    def asleep(self) -> bool:
        return self.link.get("state") == "asleep"

    @property
    def decided(self) -> bool:
        """Whether another round would not change what is said."""
        asked = [f for f in self.findings if f["alertname"] in {LINK, MISSING}]
        return self.undeclared or self.waits or all(f["conclusive"] for f in asked)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of this slot's findings."""
        return worst(Verdict[f["verdict"]] for f in self.findings)

    def told_by(self) -> dict[str, str]:
        """Return the witnesses that tell a whole link: `{"port": "Gen3 x8"}`."""
        said = self.link.get("witnesses") or {}
        return {who: link for who, link in said.items() if _WHOLE.fullmatch(str(link))}


def rows(report: Data) -> list[Row]:
    """Return a row for each slot that has a card or should have one, by address."""
    found: dict[str, list[Data]] = {}
    for finding in filter(about_links, report["findings"]):
        slot = finding["subject"].get("slot")
        if slot is not None:
            found.setdefault(slot, []).append(finding)
    made = (_row(slot, tuple(found[slot]), report) for slot in sorted(found))
    return [row for row in made if not _forwarded(row)]


def about_links(finding: Data) -> bool:
    """Whether a finding is about a link, a GPU's presence, or a source of either."""
    subject = finding["subject"]
    blind = finding["alertname"] == "WatchdogBlind" and "target" not in subject
    return finding["alertname"] in LINKS or (blind and subject.get("probe") in SOURCES)


def _row(slot: str, findings: tuple[Data, ...], report: Data) -> Row:
    proof = {f["alertname"]: f["evidence"] for f in findings}
    link = proof.get(LINK, {})
    errors = proof.get(ERRORS) or {}
    presence = proof.get(MISSING, {})
    told_facts = [r["facts"] for r in report["readings"] if r["probe"] == "pcie_sysfs"]
    facts: Data = next((f for f in told_facts if f.get("slot") == slot), {})
    return Row(
        slot,
        findings,
        link,
        errors if "since_boot" in errors else None,
        presence,
        facts,
        _declared(slot, link, presence, facts, report),
    )


def _declared(slot: str, link: Data, presence: Data, facts: Data, report: Data) -> Slot | None:
    """What judged it, else what the configuration says of any address of its chain."""
    key = str(presence.get("key") or slot)
    if link.get("expected_generation") is not None:
        return Slot(key, link["expected_generation"], link["expected_width"], link["note"])
    slots = [
        Slot(key, part["generation"], part["width"], part.get("note") or "")
        for key, part in report.get("declared", {}).items()
    ]
    return declared_of(slots, [key, slot, *facts.get("chain", ())])


def _forwarded(row: Row) -> bool:
    """Whether all that is said is that this key leads to another slot by now."""
    return not row.there and row.verdict is Verdict.OK and not row.presence


def link_now(row: Row) -> str:
    """Return what the link runs, `missing` or `lost`."""
    if not row.there:
        return "no card" if row.presence else "unknown"
    if row.presence.get("lost"):
        return "card lost"
    if row.asleep:
        return "asleep"
    return told(row.link.get("speed"), row.link.get("width"))


def word(row: Row) -> str:
    """Return the verdict in a word; too little evidence is no OK, an undeclared slot UNKNOWN."""
    if row.verdict is not Verdict.OK:
        return row.verdict.name
    if row.undeclared:
        return "UNKNOWN"
    judged = [f["conclusive"] for f in row.findings if f["alertname"] == LINK]
    return "OK" if all(judged) else "no evidence"


def counted(counts: Mapping[str, Mapping[str, float]] | None) -> str:
    """Write the most of what was counted: `6,655 BadTLP`."""
    if counts is None:
        return "not read"
    most = flat(counts)
    if not most:
        return "0"
    n, name, _ = most[0]
    return f"{n:,.0f} {name}" + (f" and {len(most) - 1} more" if most[1:] else "")


WITNESSES: Final = {
    s.PORT: "slot's port",
    s.CARD: "card's end",
    s.STARRED: "starred row",
    s.METRICS: "gpu_metrics",
    s.NVML: "NVML",
    s.PATH: "links above",
}
"""Column titles, in their order. The function of a card with a switch is none of them."""
