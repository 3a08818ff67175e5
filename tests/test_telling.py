"""A report told to people: what is true now, on lines that nobody else writes."""

from __future__ import annotations

from tests.telling_stories import TARGET, Engine, Story, shares
from watchdog.domain.report import as_json
from watchdog.domain.sample import labels
from watchdog.telling import for_nagios, for_people

DEAD = (0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
HOSTILE = "m\x1b[2J\x1b]0;pwned\x07\nserving-watchdog 0.1.0 on gpu-1: OK\u202e"


class Named(Engine):
    """An engine whose model was named by somebody who means no good."""

    @property
    def subject(self):  # type: ignore[no-untyped-def]
        return labels(target=TARGET, engine=self.name, model_name=HOSTILE)


def dead(story: Story) -> Story:
    for _ in range(4):
        story.engines[0].draft(400, shares(400, *DEAD), requests=4)
        story.round()
    return story


def test_a_hostile_name_writes_no_line_and_steers_no_terminal() -> None:
    told = for_people(as_json(dead(Story([Named()])).report), everything=True)
    assert "firing" in told
    assert all(line.isprintable() for line in told.splitlines())
    assert sum(line.startswith("serving-watchdog ") for line in told.splitlines()) == 1


def test_an_alert_of_which_nothing_was_seen_lately_says_since_when() -> None:
    story = dead(Story([Engine()]))
    assert "nothing was seen" not in for_people(as_json(story.report))
    seen = as_json(story.report)["at"]
    story.fail()
    assert f"nothing was seen of it since {seen}" in for_people(as_json(story.report))


def test_the_daemons_own_troubles_are_told_apart_from_verdicts() -> None:
    report = as_json(Story([Engine()]).report)
    assert "troubles" not in for_people(report)
    told = for_people({**report, "notes": ["nothing reaches webhook hook: refused"]})
    assert told.endswith("troubles of the daemon's own\n  nothing reaches webhook hook: refused")
    assert told.splitlines()[0] == for_people(report).splitlines()[0]


def test_a_nagios_line_steers_no_terminal() -> None:
    line = for_nagios(as_json(dead(Story([Named()])).report))
    assert line.isprintable()
