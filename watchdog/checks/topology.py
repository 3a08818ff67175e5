"""
Do the GPUs of one server sit on different sockets?

Tensor parallelism adds up over all its GPUs twice a layer; between sockets that goes over the
link of the processors. The socket of a GPU counts, else its NUMA node, else its root complex:
one socket may have several of the last two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, target_of
from watchdog.domain.holding import held_by
from watchdog.domain.sample import Facts

KINDS = ("socket", "numa", "root")
WORDS = {"socket": "socket", "numa": "NUMA node", "root": "root complex"}
MANY = {"socket": "sockets", "numa": "NUMA nodes", "root": "root complexes"}


class Card(NamedTuple):
    """One GPU of the server; None where it is not told."""

    gpu: str
    socket: int | None
    numa: int | None
    root: str | None


class State(NamedTuple):
    """Rounds in a row in which the GPUs were seen apart."""

    rounds: int = 0


@dataclass(frozen=True)
class Topology:
    """Fields are limits: rounds in a row."""

    about: ClassVar[str] = "target"

    rounds: int = 2

    def step(
        self,
        state: State | None,
        window: Window,
        now: float,  # noqa: ARG002  (rounds are counted)
    ) -> tuple[State | None, list[Finding]]:
        """Judge one round of one target; silent about one that was never seen on this host."""
        cards, reason = _cards(window.facts)
        if cards is None and not reason and state is None:
            return None, []
        kind = None if cards is None else _apart(cards)
        rounds = (state or State()).rounds
        rounds = rounds if kind is None else rounds + 1 if kind else 0
        bad = bool(kind) and rounds >= self.rounds
        sure = bad or kind == ""

        def argue() -> Argument:
            if cards is None:
                why = reason or "not told in this round"
                return Argument(f"{target_of(window)}: which GPUs it holds is not known: {why}")
            return _argue(window, cards, kind, bad=bad)

        verdict = Verdict.WARNING if bad else OK
        found = Finding("TensorParallelCrossSocket", window.subject, verdict, argue, sure)
        return State(rounds), [found]


def _cards(facts: Facts) -> tuple[tuple[Card, ...] | None, str]:
    """Return the server's GPUs, or None and why they are not known; no reason: nothing told."""
    told, reason = held_by(facts), str(facts.get("gpus_unknown") or "")
    if told is None:
        return None, reason
    return tuple(
        Card(str(one.get("gpu")), one.get("socket"), one.get("numa"), one.get("root") or None)
        for one in told
    ), ""


def _apart(cards: Sequence[Card]) -> str | None:
    """
    Return by what the GPUs differ: `socket`, `numa` or `root`.

    Empty where they are together, None where neither can be told.
    """
    if len(cards) < 2:
        return ""
    for kind in KINDS:
        places = [getattr(card, kind) for card in cards]
        if len({place for place in places if place is not None}) > 1:
            return kind
        if None not in places:
            return ""
    return None


def _argue(window: Window, cards: Sequence[Card], kind: str | None, *, bad: bool) -> Argument:
    who = target_of(window)
    proof: dict[str, object] = {"gpus": [card._asdict() for card in cards]}
    if not cards:
        return Argument(f"{who}: holds no GPU of this host", evidence=proof)
    if kind is None:
        names = ", ".join(card.gpu for card in cards)
        return Argument(f"{who}: where its GPUs sit is not told: {names}", evidence=proof)
    if not kind:
        return Argument(f"{who}: {len(cards)} GPU(s){_where(cards)}", evidence=proof)
    doubt = ", of unknown NUMA nodes" if kind == "root" else ""
    spread = ", ".join(f"{card.gpu} on {_name(card, kind)}" for card in cards)
    said = f"{who}: its GPUs sit on different {MANY[kind]}{doubt}: {spread}"
    if not bad:
        return Argument(f"{said}; another such round decides", evidence=proof)
    return Argument(
        said,
        "the GPUs of one server on one socket",
        proof,
        ruled_out=("other servers' GPUs: only what this server's processes hold was counted",),
        suspects=(
            "a launch that takes the first GPUs instead of those of one socket",
            "GPUs that were numbered anew, after one went missing",
        ),
        next_step="choose GPUs of one socket with HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES, "
        "or split the model by pipeline between the sockets",
    )


def _where(cards: Sequence[Card]) -> str:
    """Say in what they are together, as far as it is told."""
    for kind in KINDS:
        places = {getattr(card, kind) for card in cards}
        if len(places) == 1 and None not in places:
            return f" on {_name(cards[0], kind)}"
    return ""


def _name(card: Card, kind: str) -> str:
    place = getattr(card, kind)
    return f"an unknown {WORDS[kind]}" if place is None else f"{WORDS[kind]} {place}"
