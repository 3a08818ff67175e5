"""The pages for operators say what the code does: names, limits, commands and links."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from watchdog.checks import CHECKS
from watchdog.cli import cli
from watchdog.domain.alert import PATIENCE
from watchdog.duration import format_duration
from watchdog.limits import defaults
from watchdog.settings import Settings

ROOT = Path(__file__).parents[1]
ALERTS = ROOT / "docs" / "alerts"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
OPERATORS = [ROOT / "README.md", *sorted(ALERTS.glob("*.md"))]
OPERATORS += [ROOT / "docs" / f"{name}.md" for name in (
    "alertmanager", "checks", "commands", "endurance", "grafana", "install", "limits", "port",
    "prometheus", "receiver", "status-page", "webhooks",
)]  # fmt: skip

LIMITS = defaults(CHECKS)

NO_CHECKS = ("reading", "heartbeat", "test")
"""What findings have as their check that no check has made."""

SECTIONS = [
    "What it means",
    "How sure it is",
    "Look first",
    "Likely causes",
    "What to do",
    "When it resolves",
    "Its limits",
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def headings(text: str, level: str = "##") -> list[str]:
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(rf"^{level} (.+)$", prose, re.MULTILINE)


def section(text: str, heading: str) -> str:
    found = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None, heading
    return found[1]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {page.stem for page in ALERTS.glob("*.md")} == set(PATIENCE)


@pytest.mark.parametrize("alertname", PATIENCE)
def test_a_runbook_has_every_section_in_order(alertname: str) -> None:
    text = (ALERTS / f"{alertname}.md").read_text()
    assert headings(text, "#") == [alertname]
    assert headings(text) == SECTIONS
    for heading in SECTIONS:
        assert len(section(text, heading).strip()) > 20, heading


@pytest.mark.parametrize("alertname", PATIENCE)
def test_a_runbook_tells_severity_hold_and_linger_as_they_are(alertname: str) -> None:
    patience = PATIENCE[alertname]
    text = (ALERTS / f"{alertname}.md").read_text()
    told = re.search(
        r"^Severity: (\w+) · Hold: (\w+) · Linger: (\w+) · Checks?: (`\w+`(?:, `\w+`)*)$",
        text,
        re.MULTILINE,
    )
    assert told is not None
    assert told.groups()[:3] == (
        patience.severity,
        format_duration(patience.hold),
        format_duration(patience.linger),
    )
    named = re.findall(r"`(\w+)`", told[4])
    assert set(named) <= {*CHECKS, *NO_CHECKS}
    for check, kind in CHECKS.items():
        if getattr(sys.modules[kind.__module__], "NAME", None) == alertname:
            assert check in named


@pytest.mark.parametrize("alertname", PATIENCE)
def test_a_runbook_names_only_limits_of_its_check(alertname: str) -> None:
    text = section((ALERTS / f"{alertname}.md").read_text(), "Its limits")
    found = re.match(r"\s*`checks\.(\w+)`: ([^;.]+)[;.]", text)
    if found is None:
        assert alertname in {"WatchdogBlind", "ServingWatchdogTest", "ServingWatchdogHeartbeat"}
        return
    limits = LIMITS[found[1]]
    named = set(re.findall(r"`(\w+)`", found[2]))
    assert named
    assert named <= set(limits)


def limits_told(check: str) -> dict[str, str]:
    """The table of one check in docs/checks.md: limit -> default as it is written."""
    text = section((ROOT / "docs" / "checks.md").read_text(), check)
    return dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", text, re.MULTILINE))


@pytest.mark.parametrize("check", CHECKS)
def test_the_page_of_checks_has_every_limit_with_its_default(check: str) -> None:
    written = Settings().model_dump(mode="json")["checks"][check]
    assert limits_told(check) == {
        limit: str(value).lower() if isinstance(value, bool) else str(value)
        for limit, value in written.items()
    }


def test_the_page_of_checks_has_no_check_that_is_gone() -> None:
    page = (ROOT / "docs" / "checks.md").read_text()
    assert headings(page) == [*CHECKS, "changes", *NO_CHECKS]  # changes: no finding of its own


@pytest.mark.parametrize("page", OPERATORS, ids=name_of)
def test_limits_named_by_their_key_exist(page: Path) -> None:
    for check, limit in re.findall(r"checks\.(\w+)\.(\w+)", page.read_text()):
        assert limit in LIMITS[check], f"{check}.{limit}"


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(cli))


def written_commands(text: str) -> Iterator[tuple[str, str]]:
    """Each `serving-watchdog ...` of a page that is code: the command, and what follows it."""
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^ {4}(.+)$", text, re.MULTILINE)
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    code += [line for block in blocks for line in block.splitlines()]
    for line in code:
        for rest in re.findall(r"(?:^|[\s/$(=])(?:serving-)?watchdog ((?:[a-z]+ ?){1,2}.*)", line):
            words = rest.split("#")[0].split()
            two = " ".join(words[:2])
            yield (two, rest) if two in COMMANDS else (words[0], rest)


@pytest.mark.parametrize("page", OPERATORS, ids=name_of)
def test_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for command, rest in written_commands(page.read_text()):
        assert command in COMMANDS, f"{command!r} in {rest!r}"
        known = {option for part in COMMANDS[command].params for option in part.opts}
        for option in re.findall(r"(?<!\S)\[?(--[a-z-]+)", re.split(r"\s[|#&>;]\s|2>", rest)[0]):
            assert option in known, f"{option} of {command!r}"


def test_the_page_of_commands_has_every_command_and_option() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    for name, command in COMMANDS.items():
        assert re.search(rf"serving-watchdog {name}\b", text), name
        for option in (o for part in command.params for o in part.opts if o.startswith("--")):
            assert f"`{option}" in text or f"[{option}" in text, f"{name} {option}"


def test_the_readme_lists_every_alert_with_its_severity() -> None:
    text = (ROOT / "README.md").read_text()
    rows = dict(re.findall(r"^\| \[(\w+)\]\(docs/alerts/\1\.md\) \| (\w+) \|", text, re.MULTILINE))
    assert rows == {name: patience.severity for name, patience in PATIENCE.items()}


def test_the_readme_tells_every_exit_code() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"^\| ([0-9]) \|", text, re.MULTILINE) == ["0", "1", "2", "3"]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 200


def test_make_targets_of_the_readme_exist() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    used = re.findall(r"\bmake ([a-z][a-z-]*)\b", (ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(used) <= set(targets)


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in found}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target
