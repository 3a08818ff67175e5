"""
Requests of one engine on one day: when they come, what they are, how long they decode.

From the incident: 390 tokens/s saturated with 8 clients, 134 tokens/s alone, so a step takes
24.6 ms alone and 68 ms with 8. Assumed: that the time grows evenly in between, the week's
profile, lognormal prompts and outputs. Simplified:

- A request counts from its first token on; prefill takes no time.
- How many drafts it takes and how long a step lasts is settled when it begins, by the
  acceptance and the batch of that moment: a fault that begins inside a request changes what is
  accepted from there on, not when the request ends. Its output is then a little shorter.
- Requests are cut at midnight, and a closed loop begins anew.
- More than 8 at once are served like 8; those beyond are shown as waiting.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from bench.detection.acceptance import CATEGORIES, OUTPUTS, drafts_a_request, length_of
from bench.detection.faults import Drafter
from bench.detection.interruptions import DAY
from bench.detection.mix import HOURS
from bench.detection.streams import Bools, Floats, Ints, Purpose, Streams

HOUR: Final = 3600.0
CLIENTS: Final = 8
STEP: Final = (0.0246, 0.068)
"""Seconds of a step with one request in the batch, and with CLIENTS."""
PLAIN: Final = 0.7
"""Time of a step without drafts, of one with them."""
PER_HOUR: Final = {"idle": 15.0, "medium": 300.0}
"""Mean requests an hour of the open loops."""
BUSY: Final = 84.0
"""Mean drafts a second of the closed loop."""
OUTPUT_SPREAD: Final = 0.7
PROMPT_SPREAD: Final = 0.8
"""Standard deviations of the logarithms."""

_WEEKDAY = np.array([0.12] * 7 + [0.4, 0.9] + [1.9] * 9 + [1.2] * 4 + [0.5] * 2)
WEEK: Final[Floats] = np.concatenate([_WEEKDAY] * 5 + [0.45 * _WEEKDAY] * 2)
"""How busy each hour of the week is, from Monday on."""

_PROMPTS = np.array([c.prompt for c in CATEGORIES])
_CACHED = np.array([c.cached for c in CATEGORIES])
_BLOCK = 16


class Requests(NamedTuple):
    """
    Arrays over requests. `starts`, `ends` in seconds of the day, `step` seconds of a decode
    step, `batch` requests in it, `steps` its decode updates, `shift` its own logit shift.
    `whole` is False where a restart cut it.
    """

    starts: Floats
    ends: Floats
    step: Floats
    steps: Ints
    batch: Floats
    category: Ints
    shift: Floats
    prompt: Floats
    hits: Floats
    whole: Bools


class Place(NamedTuple):
    """Whose requests these are: a life's streams, and the day and engine in it."""

    streams: Streams
    day: int
    engine: int

    def stream(self, purpose: Purpose, part: int = 0) -> np.random.RandomState:
        return self.streams.of(purpose, self.day, self.engine, part)


class Wishes(NamedTuple):
    """What requests are, before anything is known of when: numbers between 0 and 1, and normal."""

    kind: Floats
    shift: Floats
    output: Floats
    prompt: Floats


def wishes(place: Place, count: int, part: int = 0) -> Wishes:
    stream = place.stream(Purpose.REQUESTS, part)
    return Wishes(stream.random_sample(count), *stream.standard_normal((3, count)))


def step_seconds(batch: Floats) -> Floats:
    """Seconds of a decode step with so many requests in the batch."""
    share: Floats = (np.clip(batch, 1, CLIENTS) - 1) / (CLIENTS - 1)
    return STEP[0] + share * (STEP[1] - STEP[0])


def open_loop(place: Place, per_hour: float, shares: Floats, drafter: Drafter) -> Requests:
    """Requests that come by themselves, however long the others take."""
    rates = per_hour * _hours(place.day) / WEEK.mean()
    stream = place.stream(Purpose.ARRIVALS)
    count = stream.poisson(rates.sum())
    passed = np.concatenate(([0.0], np.cumsum(rates) / rates.sum()))
    starts = np.interp(np.sort(stream.random_sample(count)), passed, HOUR * np.arange(HOURS + 1))
    wished = wishes(place, count)
    hour = np.minimum(starts // HOUR, HOURS - 1).astype(np.int64)
    category = _kinds(shares[hour], wished.kind)
    steps, pace = _steps(drafter, starts, category, wished)
    alone = np.sort(starts + steps * STEP[0] * pace)
    running = np.arange(count) - np.searchsorted(alone, starts) + 1.0
    return _requests(starts, steps, pace, np.minimum(running, CLIENTS), category, wished)


def closed_loop(place: Place, shares: Floats, drafter: Drafter, changes: int) -> Requests:
    """
    Clients that ask again at once after an answer; in quiet hours there are fewer of them, and
    the last of these makes pauses.

    `changes`: how many times a fault begins or ends on this day.
    """
    free = _mean_seconds(1.0) * place.stream(Purpose.ARRIVALS).random_sample(CLIENTS)
    parts = []
    for hour in range(HOURS):
        part, free = _closed_hour(place, hour, shares[hour], drafter, changes, free)
        parts.append(part)
    whole = Requests._make(map(np.concatenate, zip(*parts, strict=True)))
    order = np.argsort(whole.starts, kind="stable")
    return Requests._make(column[order] for column in whole)


def _closed_hour(
    place: Place, hour: int, shares: Floats, drafter: Drafter, changes: int, free: Floats
) -> tuple[Requests, Floats]:
    """Return the hour's requests, and when each client is free after it."""
    active = CLIENTS * float(np.minimum(1.0, _duty_scale() * _hours(place.day)[hour]))
    batch = max(1.0, active)
    wished, pauses = _asked(place, hour, active, _mean_seconds(batch))
    clients = len(pauses)
    category = _kinds(shares[None, :], wished.kind)
    begin = np.maximum(free[:clients], HOUR * hour)
    starts = np.repeat(begin[:, None], pauses.shape[1], axis=1)
    # What a request costs depends on when it begins, and that on those before it: each change
    # of a fault needs another pass, and what began before the change stays.
    for _ in range(1 + changes):
        steps, pace = _steps(drafter, starts.ravel(), category, wished)
        spent = (steps * pace * float(step_seconds(np.array(batch)))).reshape(starts.shape)
        taken = np.cumsum(pauses + spent, axis=1)
        starts = begin[:, None] + taken - spent
    ends = starts + spent
    inside = starts < HOUR * (hour + 1)
    last = np.maximum(inside.sum(axis=1) - 1, 0)
    free = free.copy()
    free[:clients] = np.where(inside.any(axis=1), ends[np.arange(clients), last], begin)
    keep = inside.ravel()
    chosen = Wishes._make(column[keep] for column in wished)
    batches = np.full(int(keep.sum()), batch)
    requests = _requests(
        starts.ravel()[keep], steps[keep], pace[keep], batches, category[keep], chosen
    )
    return requests, free


def _asked(place: Place, hour: int, active: float, usual: float) -> tuple[Wishes, Floats]:
    """Wishes and pauses of the clients of an hour; `usual` seconds of a request."""
    clients = int(np.ceil(active))
    duty = np.clip(active - np.arange(clients), 0.01, 1.0)[:, None]
    most = int(1.8 * HOUR / usual) + 25  # of each client: json alone needs 1.6
    wished = wishes(place, clients * most, hour)
    pauses = place.stream(Purpose.ARRIVALS, 1 + hour).standard_exponential((clients, most))
    return wished, pauses * usual * (1 - duty) / duty


def cut(requests: Requests, downs: list[tuple[float, float]]) -> Requests:
    """Take away what asks while the server is down, and end what runs when it goes."""
    for begins, ends in downs:
        gone = (requests.starts >= begins) & (requests.starts < ends)
        requests = Requests._make(column[~gone] for column in requests)
        running = (requests.starts < begins) & (requests.ends > begins)
        requests = _ended(requests, running, begins)._replace(whole=requests.whole & ~running)
    return _ended(requests, requests.ends > DAY, float(DAY))


def _ended(requests: Requests, which: Bools, at: float) -> Requests:
    done = ((at - requests.starts) / requests.step).astype(np.int64)
    return requests._replace(
        ends=np.where(which, at, requests.ends),
        steps=np.where(which, np.minimum(done, requests.steps), requests.steps),
    )


def _kinds(shares: Floats, kind: Floats) -> Ints:
    """Pick each request's category by the shares of its hour."""
    passed = np.cumsum(shares, axis=1)[:, :-1]
    picked: Ints = (kind[:, None] > passed).sum(axis=1)
    return picked


def _steps(drafter: Drafter, starts: Floats, category: Ints, wished: Wishes) -> tuple[Ints, Floats]:
    """Decode updates that a request's output takes, and the pace of its steps."""
    first, deep, stopped = drafter.logits(starts, category, drafter.sd * wished.shift)
    length = np.where(stopped, 1.0, length_of(first, deep))
    output = OUTPUTS[category] * _lognormal(wished.output, OUTPUT_SPREAD)
    steps = np.maximum(1, np.rint(output / length)).astype(np.int64)
    return steps, np.where(stopped, PLAIN, 1.0)


def _requests(
    starts: Floats, steps: Ints, pace: Floats, batch: Floats, category: Ints, wished: Wishes
) -> Requests:
    step = step_seconds(batch) * pace
    prompt = np.maximum(1, np.rint(_PROMPTS[category] * _lognormal(wished.prompt, PROMPT_SPREAD)))
    hits = _BLOCK * np.floor(_CACHED[category] * prompt / _BLOCK)
    ends = starts + steps * step
    whole = np.ones(len(starts), bool)
    return Requests(starts, ends, step, steps, batch, category, wished.shift, prompt, hits, whole)


def _lognormal(normal: Floats, spread: float) -> Floats:
    """Mean 1."""
    value: Floats = np.exp(spread * normal - spread**2 / 2)
    return value


def _hours(day: int) -> Floats:
    first = day % 7 * HOURS
    return WEEK[first : first + HOURS]


def _mean_seconds(batch: float) -> float:
    return drafts_a_request() * float(step_seconds(np.array(batch)))


@lru_cache(maxsize=1)
def _duty_scale() -> float:
    """Share of the time in which clients wait for an answer, of how busy the hour is."""
    low, high = 0.0, 10.0
    for _ in range(50):
        scale = (low + high) / 2
        batch = CLIENTS * np.minimum(1.0, scale * WEEK)
        mean = float((batch / step_seconds(np.maximum(1.0, batch))).mean())
        low, high = (scale, high) if mean < BUSY else (low, scale)
    return scale
