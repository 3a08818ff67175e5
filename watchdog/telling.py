"""A report, as plain data, told to people and to Nagios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from watchdog.domain.finding import FOR_MACHINES, Verdict, worst
from watchdog.domain.texts import printable

Data = Mapping[str, Any]

ORDER = ("CRITICAL", "WARNING", "UNKNOWN", "OK")
HEADLINES = ("SpecDecodeCollapsed", "ServingDown", "GpuLinkDegraded")
"""What is shown of a target when all is well; the rest only when it has something to say."""

MOST_RECEIVED = 10
"""Alerts of other programs that people are shown; the rest is in the JSON."""


def for_people(report: Data, *, everything: bool = False, source: str = "") -> str:
    """
    The report as text: the verdict, then what is wrong with its argument, then the rest.

    Whatever a server or another program calls itself, it stays on its line and steers no terminal.
    """
    who = f"serving-watchdog {report['version']} on {report['host']}"
    lines = [f"{who}: {report['verdict']} at {report['at']}{source}"]
    bad = [f for f in report["findings"] if f["verdict"] != "OK" and not _told_twice(f)]
    for finding in sorted(bad, key=lambda f: ORDER.index(f["verdict"])):
        lines += ["", *_argued(finding)]
    fine = [f for f in report["findings"] if f["verdict"] == "OK" and _shown(f, everything)]
    if fine:
        lines.append("")
    lines += [f"{_word(f):<12} {f['summary']}" for f in fine]
    lines += [*alerts_of(report), *received_of(report), *notes_of(report)]
    return "\n".join(map(printable, lines))


def _told_twice(finding: Data) -> bool:
    """Whether it says of a slot only what the finding about its link or GPU says: not known."""
    return finding["alertname"] == "WatchdogBlind" and set(finding["subject"]) == {"slot"}


def _word(finding: Data) -> str:
    """Thin evidence is no OK, whatever the exit code."""
    return finding["verdict"] if finding["conclusive"] else "no evidence"


def _shown(finding: Data, everything: bool) -> bool:  # noqa: FBT001
    of_host = not finding["subject"]  # such as that it has no GPU
    counted = finding["alertname"] == "GpuLinkErrors" and finding["evidence"].get("since_boot")
    return everything or of_host or bool(counted) or finding["alertname"] in HEADLINES


def _argued(finding: Data) -> Iterator[str]:
    yield f"{finding['verdict']:<12} {finding['alertname']}: {finding['summary']}"
    if finding["expected"]:
        yield f"  expected   {finding['expected']}"
    proof = _numbers(finding["evidence"])
    if proof:
        yield f"  evidence   {proof}"
    for line in finding["ruled_out"]:
        yield f"  ruled out  {line}"
    for rank, line in enumerate(finding["suspects"], 1):
        yield f"  suspect {rank}  {line}"
    if finding["next_step"]:
        yield f"  next       {finding['next_step']}"
    if finding["verdict"] in ("CRITICAL", "WARNING"):
        yield f"  runbook    {finding['runbook_url']}"


def _numbers(evidence: Data) -> str:
    return ", ".join(
        f"{name} {_number(value)}"
        for name, value in evidence.items()
        if value not in (None, [], {}, "") and name not in FOR_MACHINES
    )


def _number(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + " ".join(_number(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_number(v)}" for k, v in value.items()) + "}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def alerts_of(report: Data) -> Iterator[str]:
    """Lines about the alerts of a daemon's report, and what is paused; none where there is none."""
    told = [a for a in report.get("alerts", []) if a["state"] in ("firing", "resolved")]
    if told:
        yield ""
        yield "alerts, as a daemon sends them"
    for alert in told:
        since = alert["resolved_at"] if alert["state"] == "resolved" else alert["fired_at"]
        subject = " ".join(f"{k}={v}" for k, v in alert["subject"].items())
        yield f"  {alert['state']:<9} since {since}  {alert['alertname']}  {subject}"
        if alert["state"] == "firing" and alert.get("seen_at", report["at"]) != report["at"]:
            yield f"            nothing was seen of it since {alert['seen_at']}"
    for target, until in report.get("paused", {}).items():
        yield f"  paused    until {until}  {target}: watched and recorded, not alerted"


def received_of(report: Data) -> Iterator[str]:
    """Lines about alerts of other programs, and what is seen here."""
    told = report.get("received", [])
    if told:
        yield ""
        yield "alerts received from Alertmanager, and what is seen here"
    for alert in told[:MOST_RECEIVED]:
        yield from _received(alert, report["host"])
    if len(told) > MOST_RECEIVED:
        yield f"  and {len(told) - MOST_RECEIVED} more, see `watchdog status --json`"


def _received(alert: Data, host: str) -> Iterator[str]:
    ended = alert["ended_at"]
    since = f"ended {ended}" if ended else f"since {alert['received_at']}"
    said = f": {alert['summary']}" if alert["summary"] else ""
    yield f"  {alert['status']:<9} {since}  {alert['alertname']}  {alert['target'] or host}{said}"
    if alert["status"] == "firing":
        yield f"    seen at {alert['diagnosed_at']}"
        yield from (f"      {sentence}" for sentence in alert["diagnosis"])


def notes_of(report: Data) -> Iterator[str]:
    """Lines about a daemon's own troubles, which are no verdict."""
    notes = report.get("notes", [])
    if notes:
        yield ""
        yield "troubles of the daemon's own"
    yield from (f"  {note}" for note in notes)


def for_nagios(report: Data) -> str:
    """One line and perfdata: `CRITICAL: text | 'label'=value;warn;crit;min;max`."""
    findings = sorted(report["findings"], key=lambda f: ORDER.index(f["verdict"]))
    bad = [f for f in findings if f["verdict"] != "OK" and not _told_twice(f)]
    heads = [f for name in HEADLINES for f in findings if f["alertname"] == name]
    of_host = [f for f in findings if not f["subject"]]
    said = (bad or heads or of_host or findings)[:1]
    text = said[0]["summary"] if said else "nothing is watched"
    if len(bad) > 1:
        text += f" (and {len(bad) - 1} more)"
    line = f"serving-watchdog {report['verdict']}: {_plain(text)}"
    perf = " ".join(_perfdata(f) for f in findings if f["alertname"] == HEADLINES[0])
    return f"{line} | {perf.strip()}" if perf.strip() else line


def _perfdata(finding: Data) -> str:
    if finding["value"] is None:
        return ""
    subject = finding["subject"]
    parts = (subject.get(name) for name in ("target", "model_name", "replica", "engine"))
    label = "_".join(part for part in parts if part) + "_acceptance_length"
    return f"'{_plain(label)}'={finding['value']:.4f};;;1;"


def _plain(text: str) -> str:
    """Nagios cuts at a pipe and a line end, and a quote would end a label."""
    return " ".join(printable(text).replace("|", "/").replace("'", "").split())


def verdict_of(report: Data) -> Verdict:
    """The worst of findings and of firing alerts: what a status command exits with."""
    severities = {"warning": Verdict.WARNING, "critical": Verdict.CRITICAL}
    firing = [a for a in report.get("alerts", []) if a["state"] == "firing"]
    verdicts = [severities.get(a["severity"], Verdict.OK) for a in firing]
    return worst([Verdict[report["verdict"]], *verdicts])
