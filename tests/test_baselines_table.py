"""What people read of baselines."""

from __future__ import annotations

from typing import Any

from tests.learned import NOW, Known, assessor, engine
from watchdog.baselines import ACCEPT, RESET, changed, rows
from watchdog.baselines_table import WIDTH, table, told
from watchdog.domain.sample import Labels, labels

AT = "2026-11-30T12:00:00Z"


def drawn(known: dict[Labels, Known]) -> list[str]:
    return table(rows(assessor(known), NOW), now=AT).split("\n")


def words(line: str) -> list[str]:
    """Cells of a line; they are two spaces or more apart."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_an_engine_has_a_line_with_what_it_is_used_to_and_does_now() -> None:
    first, empty, titles, line = drawn({engine(): Known(accepted_at=NOW)})
    assert first == f"serving-watchdog: baselines at {AT}: 1 engine"
    assert empty == ""
    assert words(titles) == [
        "target", "engine", "model", "known", "baseline", "24 h", "72 h", "raised", "accepted"
    ]  # fmt: skip
    assert words(line) == [
        "qwen", "0", "qwen3", "28 days", "3.77", "2.90 (1,234 requests)", "2.90", "-",
        "2026-11-30 12:00Z",
    ]  # fmt: skip


def test_until_there_are_seven_days_it_says_learning_and_how_far() -> None:
    lines = drawn({engine(n): Known(days=int(n), lately=None) for n in ("6", "7")})
    assert lines[0].endswith("2 engines, 1 still learning")
    assert words(lines[3])[3] == "learning, 6 of 7 days"
    assert words(lines[4])[3] == "7 days"


def test_where_nothing_is_known_there_is_no_figure() -> None:
    [line] = drawn({engine(): Known(0, None, None)})[3:]
    assert words(line)[4:] == ["-", "-", "-", "-", "-"]


def test_what_is_raised_has_its_rule_and_since_when_and_why_it_does_not_learn_is_told() -> None:
    lines = drawn({engine(): Known(raised="restart", why="an alert is up"), engine("1"): Known()})
    assert lines[0].endswith("2 engines, 1 below its usual length")
    assert words(lines[3])[7] == "restart since 2026-11-30 10:00Z"
    assert lines[-2:] == ["", "qwen engine 0 does not learn now: an alert is up"]


def test_names_of_others_stay_in_their_column_and_steer_no_terminal() -> None:
    odd = labels(target="qwen", engine="[red]0\n", model_name="\x1b[2J" + "m" * 300, replica="a")
    lines = drawn({odd: Known()})
    assert "\x1b" not in "".join(lines)
    assert any("[red]0  of a" in line for line in lines)
    assert max(map(len, lines)) <= WIDTH


def test_a_change_is_told_with_what_was_and_what_is() -> None:
    def said(how: str, known: Known) -> list[str]:
        answer: dict[str, Any] = changed(assessor({engine(): known}), how, "qwen", None, NOW)
        return list(told(answer))

    assert said(ACCEPT, Known()) == ["qwen engine 0: was 3.77 (28 days), now 2.90 tokens"]
    assert said(RESET, Known(1)) == ["qwen engine 0: was 3.77 (1 day), it learns anew"]
    assert said(ACCEPT, Known(0, None)) == ["qwen engine 0: was no baseline, now 2.90 tokens"]
