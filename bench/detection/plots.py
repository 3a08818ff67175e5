"""
Results as pictures; the same results give the same bytes.

    python -m bench.detection.plots bench/detection/results.json docs/images

Needs the extra `bench`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.detection.bound import bounds, drafts_a_year, lorden
from bench.detection.tally import Rate, Row, joined, median, rate, rules, shipped

Results = Mapping[str, Any]

PROFILES: Final = ("idle", "medium", "busy")
FORMS: Final[Mapping[str, tuple[str, str, tuple[int, int]]]] = {
    "1 + A/D < x for 5m": ("#0072B2", "o", (7, -3)),
    "the same, with 200 drafts": ("#009E73", "s", (-21, -3)),
    "A/T < x for 10m": ("#D55E00", "^", (7, 4)),
}
"""Colour, mark, and where the limit is written, in points from the mark."""
OURS: Final = "#000000"
KINDS: Final[Mapping[str, str]] = {
    "zero acceptance": "#009E73", "incident": "#000000", "incident, greedy text": "#0072B2",
    "mild": "#D55E00",
}  # fmt: skip
SIZES: Final[Mapping[str, str]] = {
    "10 %": "#56B4E9", "20 %": "#0072B2", "30 %": "#000000", "45 %": "#D55E00", "deep": "#009E73",
}  # fmt: skip
DAY: Final = 86_400.0

STYLE: Final[Any] = {
    "svg.hashsalt": "serving-watchdog", "svg.fonttype": "none", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "legend.frameon": False, "legend.fontsize": 8, "figure.facecolor": "white",
}  # fmt: skip


class Point(NamedTuple):
    """One detector on one profile."""

    form: str
    limit: str
    drafts: float
    alarms: Rate


def points(results: Results, profile: str, fault: str = "incident") -> list[Point]:
    """Median delay in drafts and false alarms in normal life; ours has the form "" and is last."""
    wanted = ("normal", profile, "held out")
    normal = [x for x in results["lives"] if (x["name"], x["profile"], x["role"]) == wanted]
    rows = [f for f in results["faults"] if (f["name"], f["profile"]) == (fault, profile)]
    found = []
    for rule in rules(rows):
        (row,) = [f for f in rows if f["detector"] == rule]
        delay = _median_of_all(row)
        if delay is not None:
            limit = rule.partition("< ")[2].split()[0]
            found.append(Point(form_of(rule), limit, delay, rate(normal, rule)))
    for row in shipped(rows):
        delay = _median_of_all(row)
        if delay is not None:
            found.append(Point("", "", delay, rate(normal, "SpecDecodeCollapsed")))
    return found


def form_of(rule: str) -> str:
    """How people would say it."""
    length, guarded, share = FORMS
    return guarded if "increase(" in rule else length if rule.startswith("1 +") else share


def _median_of_all(row: Row) -> float | None:
    """The median where what was missed counts as never; None where half were missed."""
    if not row["n"] or row["found"] * 2 <= row["n"]:
        return None
    endless = [float("inf")] * (row["n"] - row["found"])
    return median([*row["delays_drafts"], *endless])


def shares(values: Iterable[float], of: int) -> tuple[list[float], list[float]]:
    """Steps of the share found by each value; what is missing of `of` was never found."""
    found = sorted(values)
    return [0.0, *found], [0.0, *(number / of for number in range(1, len(found) + 1))]


def draw(results: Results, folder: Path) -> list[Path]:
    """Write every picture, and return where."""
    import matplotlib as mpl  # noqa: PLC0415  (the figures' data are made without it)

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in PICTURES.items():
        with mpl.rc_context(STYLE):
            figure = picture(plt, results)
            path = folder / f"detection-{name}.svg"
            figure.savefig(path, metadata={"Date": None, "Creator": None})
            plt.close(figure)
        written.append(path)
    return written


def alarms_and_delay(plt: Any, results: Results) -> Any:
    """False alarms a year against the median delay."""
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, profile in zip(axes, PROFILES, strict=True):
        for point in points(results, profile):
            _point(ax, point)
        ax.set(title=profile, xscale="log", yscale="log", xlabel="drafts until the alert, median")
        ax.set(xlim=(100, 3e5), ylim=(0.02, 3000))
        ax.minorticks_off()
        ax.axhline(1, color="#888888", linewidth=0.8, linestyle="--")
    axes[0].set_ylabel("false alarms an endpoint-year")
    handles = [
        plt.Line2D([], [], color=color, marker=mark, linestyle="", label=form)
        for form, (color, mark, _) in FORMS.items()
    ]
    handles.append(plt.Line2D([], [], color=OURS, marker="*", markersize=11, linestyle="",
                              label="SpecDecodeCollapsed"))  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _point(ax: Any, point: Point) -> None:
    """None at all is drawn at its 95 % limit, with an arrow down."""
    color, mark, aside = FORMS.get(point.form, (OURS, "*", (0, 0)))
    none = point.alarms.events == 0
    y = point.alarms.upper if none else point.alarms.yearly
    ax.plot([point.drafts], [y], mark, color=color, markersize=12 if not point.form else 6,
            markerfacecolor="white" if none and point.form else color)  # fmt: skip
    if none:
        ax.annotate("", (point.drafts, y / 2.2), (point.drafts, y),
                    arrowprops={"arrowstyle": "->", "color": color, "linewidth": 0.8})  # fmt: skip
    ax.annotate(point.limit, (point.drafts, y), xytext=aside, textcoords="offset points",
                fontsize=7, color=color)  # fmt: skip


def delays(plt: Any, results: Results) -> Any:
    """How many drafts a dead drafter has until it is found, beside what is needed at least."""
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.3), sharey=True, layout="constrained")
    known, _, odd = bounds()
    for ax, profile in zip(axes, PROFILES, strict=True):
        for name, color in KINDS.items():
            for row in shipped(results["faults"], name):
                if row["profile"] == profile and row["n"]:
                    ax.step(*shares(row["delays_drafts"], row["n"]), where="post", color=color,
                            linewidth=1.4, label=name)  # fmt: skip
        for bound, style in ((known, ":"), (odd, "--")):
            least = lorden(drafts_a_year(profile), bound.per_draft)
            ax.axvline(least, color="#888888", linestyle=style, linewidth=1,
                       label=f"bound: healthy is {bound.healthy}")  # fmt: skip
        ax.axvline(4000, color="#CC79A7", linewidth=1, label="aim for 99 %")
        ax.set(title=profile, xscale="log", xlim=(10, 2e4), ylim=(0, 1.02), xlabel="drafts")
        ax.minorticks_off()
    axes[0].set_ylabel("share found")
    _legend(figure, axes)
    return figure


def degraded(plt: Any, results: Results) -> Any:
    """How many partial faults are found by which day."""
    figure, axes = plt.subplots(2, 2, figsize=(8, 5), sharex=True, sharey=True,
                                layout="constrained")  # fmt: skip
    for row, (suffix, when) in enumerate((("", "silently"), (" at a restart", "at a restart"))):
        for column, profile in enumerate(("idle", "medium")):
            ax = axes[row][column]
            for size, color in SIZES.items():
                name = f"deep 30 %{suffix}" if size == "deep" else f"degrade {size}{suffix}"
                _steps(ax, shipped(results["faults"], name), profile, (color, size))
            ax.set(title=f"{profile}, begins {when}", xlim=(0, 8), ylim=(0, 1.02))
        axes[row][0].set_ylabel("share found")
    for ax in axes[1]:
        ax.set_xlabel("days")
    _legend(figure, axes.ravel())
    return figure


def _steps(ax: Any, rows: Sequence[Row], profile: str, look: tuple[str, str]) -> None:
    rows = [row for row in rows if row["profile"] == profile and row["n"]]
    if rows:
        days = [delay / DAY for delay in joined(rows, "delays_s")]
        x, y = shares(days, sum(row["n"] for row in rows))
        label = "deeper positions, 30 %" if look[1] == "deep" else look[1]
        ax.step([*x, 8.0], [*y, y[-1]], where="post", color=look[0], linewidth=1.4, label=label)


def _legend(figure: Any, axes: Iterable[Any]) -> None:
    """One legend for all, each name once."""
    told: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            told.setdefault(label, handle)
    figure.legend(told.values(), told.keys(), loc="outside lower center", ncols=5)


PICTURES: Final = {"alarms": alarms_and_delay, "delays": delays, "degraded": degraded}


def main(told: str, folder: str) -> None:
    """Draw a file of results."""
    for path in draw(json.loads(Path(told).read_text(encoding="utf-8")), Path(folder)):
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
