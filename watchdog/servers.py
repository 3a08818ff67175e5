"""
Which processes are the server behind a port of this host.

Who listens there, where that may be seen; else whose vLLM command line names a port that is open
in its own network. What a proxy hands on is found by what Docker's proxy says of it, and is not
guessed otherwise. Where nothing of this tells, it is the one vLLM server that holds a GPU, of those
that are up in a network of their own. What is in a network of its own may be published on another
port: it must have begun when the page says that its process did. More than one answer is none.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from watchdog import processes as p
from watchdog.domain.starts import NEAR, near

DEFAULT_PORT: Final = 8000  # of `vllm serve`

LAUNCHERS: Final = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "docker", "podman", "nerdctl", "ssh", "tmux", "screen"),
        *("sudo", "doas", "su", "runuser", "timeout", "tee", "logger", "systemd-cat", "kubectl"),
        *("docker-compose", "podman-compose", "crictl"),
    }
)
"""Programs whose command line may quote that of a server."""

ELSEWHERE: Final = frozenset({"ssh", "kubectl"})
"""Programs that start a server on another host."""

OURS: Final = frozenset({"watchdog", "serving-watchdog"})

PROXIES: Final = frozenset(
    {
        *("docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "pasta.avx2"),
        *("conmon", "socat", "nginx", "haproxy", "envoy", "traefik", "caddy", "ssh", "sshd"),
    }
)
"""Programs that listen for others."""

_OWN_GROUP: Final = re.compile(
    r"/(?!(?:user|sshd?|crond?|atd|slurmd|slurmstepd|jupyterhub|supervisord?)[@.])[^/]*"
    r"(?:\.service|[0-9a-f]{64}(?:\.scope)?)(?=/container$|$)"
)
"""
The control group of a service or container: what runs in it belongs together.

Not so in those of services that start whatever their users ask for.
"""


class Unclear(Exception):
    """Which processes are the server cannot be told; the message says why."""


def port_of(argv: Sequence[str]) -> int:
    """Read `--port` of a vLLM command line."""
    value = option(argv, "--port")
    return int(value) if value.isdecimal() else DEFAULT_PORT


def option(argv: Sequence[str], name: str) -> str:
    """Return the value of the last `--name value` or `--name=value`; empty where there is none."""
    value = ""
    for i, word in enumerate(argv):
        if word.startswith(f"{name}="):
            value = word.partition("=")[2]
        elif word == name and i + 1 < len(argv):
            value = argv[i + 1]
    return value


def is_server(argv: Sequence[str]) -> bool:
    """Whether a command line starts vLLM's server, and does not only quote that."""
    return names_server(argv) and program(argv) not in LAUNCHERS


def names_server(argv: Sequence[str]) -> bool:
    """
    Whether a command line starts vLLM's server, or starts what starts it.

    By whole words, so that who searches or reads vLLM's files is none; our own commands take the
    words of a launch behind theirs.
    """
    names = [PurePosixPath(word).name for word in argv]
    for i, (word, name) in enumerate(zip(argv, names, strict=True)):
        before, after = names[i - 1] if i else "", argv[i + 1] if i + 1 < len(argv) else ""
        if name in OURS and after == "cache":
            return False
        if name == "vllm" and after == "serve":
            return True
        if word == "-m" and after.startswith("vllm.entrypoints."):
            return True
        by_python = not i or before.startswith("python")
        if by_python and "vllm/entrypoints/" in word and word.endswith(".py"):
            return True
    return False


def program(argv: Sequence[str]) -> str:
    """Return the name of the program, without its folder; a title may follow after a colon."""
    return PurePosixPath(argv[0].partition(":")[0].partition(" ")[0]).name if argv else ""


@dataclass
class Search:
    """
    One search for the server behind `port`; `deadline` in monotonic seconds.

    `holds` says whether processes hold a GPU, and raises Unclear where that is not known; None on
    a host without GPUs. `page_began` is when the process of the target's page began, by that page,
    in Unix seconds.
    """

    port: int
    proc: Path
    deadline: float
    holds: Callable[[set[int]], bool] | None = None
    page_began: float | None = None

    def find(self) -> set[int]:
        """Return the server's processes. Raises Unclear."""
        real, inner = self._listeners(), self.port
        if not real:
            behind = self._behind_proxy()
            inner = behind or self.port
            if self.sockets and behind is None:
                real = self._named(inner, self._in_network(shared=True))
            else:
                real = self._published(inner, by_proxy=behind is not None)
        roots = {self._top(pid, inner) for pid in real}
        roots = {pid for pid in roots if not roots & self._parents(pid)}
        if not roots:
            return self._holder(f"no process was seen that listens on port {self.port} or names it")
        if len(roots) > 1:
            raise Unclear(f"{len(roots)} servers may be the one behind port {self.port}")
        return self._whole(roots.pop())

    @cached_property
    def seen(self) -> Mapping[int, p.Process]:
        """All processes."""
        return {pid: x for pid, x in p.processes(self.proc).items() if not (x.kernel or x.ended)}

    @cached_property
    def words(self) -> Mapping[int, list[str]]:
        """Their command lines."""
        return {pid: p.argv(self.proc, pid) for pid in self.seen}

    @cached_property
    def servers(self) -> frozenset[int]:
        """Those of vLLM's servers."""
        return frozenset(pid for pid, argv in self.words.items() if is_server(argv))

    @cached_property
    def sockets(self) -> frozenset[str]:
        """Who listens on the port."""
        return frozenset(p.listening(self.proc / "net", self.port))

    @cached_property
    def owners(self) -> set[int]:
        """Processes that have them open, as far as open files may be read."""
        wanted = {f"socket:[{inode}]" for inode in self.sockets}
        if not wanted:
            return set()
        near = self._having(wanted, self.servers)
        return near or self._having(wanted, self.seen.keys() - self.servers)

    def _having(self, wanted: set[str], pids: Iterable[int]) -> set[int]:
        found = set()
        for pid in pids:
            if time.monotonic() >= self.deadline:
                raise Unclear("there was no time to find who listens")
            try:
                if any(name in wanted for _, name in p.files(self.proc, pid)):
                    found.add(pid)
            except OSError:  # not readable, or gone: the command lines are asked next
                continue
        return found

    def _listeners(self) -> set[int]:
        return {pid for pid in self.owners if program(self.words[pid]) not in PROXIES}

    def _behind_proxy(self) -> int | None:
        """Return the port inside the container, None where no proxy was seen."""
        for argv in self.words.values():
            if program(argv) == "docker-proxy" and option(argv, "-host-port") == str(self.port):
                inner = option(argv, "-container-port")
                if inner.isdecimal():
                    return int(inner)
        if self.owners:
            raise Unclear(f"a port proxy listens on port {self.port}: it does not say for whom")
        return None

    def _named(self, inner: int, servers: Iterable[int]) -> set[int]:
        """Return those of some servers whose command line names a port."""
        return {pid for pid in servers if port_of(self.words[pid]) == inner}

    def _in_network(self, *, shared: bool) -> set[int]:
        """
        Return the servers in whose network the port is open that their command line names.

        `shared`: by the very socket that the host's network shows; else it is a container's own.
        """
        found = set()
        for pid in self.servers:
            port = port_of(self.words[pid])
            theirs = p.listening(self.proc / str(pid) / "net", port)
            if theirs and bool(theirs & p.listening(self.proc / "net", port)) == shared:
                found.add(pid)
        return found

    def _holder(self, nobody: str) -> set[int]:
        """
        Return the only server that holds a GPU. Raises Unclear; `nobody`: that no other sign told.

        It must be up too: one that holds a GPU and listens nowhere may start for another port.
        """
        wholes = {} if self.holds is None else self._unpublished()
        if self.holds is None or not wholes:
            raise Unclear(nobody)
        root = 0
        holding = []
        try:
            for root, whole in wholes.items():
                if self.holds(whole):
                    holding.append(root)
        except Unclear as reason:
            why = f"whether the vLLM server {root} holds a GPU is not known: {reason}"
            raise Unclear(f"{nobody}; {why}") from None
        if not holding:
            raise Unclear(f"{nobody}, and no vLLM server that may be the one holds a GPU")
        if len(holding) > 1:
            raise Unclear(f"{nobody}, and {len(holding)} vLLM servers that may be it hold GPUs")
        own = wholes[holding[0]]
        seen = f"{nobody}; the vLLM server {holding[0]} holds a GPU"
        if not any(self._listens(pid, pid) for pid in own & self.servers):
            raise Unclear(f"{seen} and was not seen to listen")
        if not self._of_page({holding[0]}):
            raise Unclear(f"{seen} and did not begin when the page says that its process did")
        return own

    def _of_page(self, servers: set[int]) -> set[int]:
        """Return those of which a process began when the page's did; all where it does not say."""
        began = self.page_began
        if began is None:
            return servers
        return {
            server for server in servers
            if any(self._began_at(pid, began) for pid in p.family([server], self.seen))
        }  # fmt: skip

    def _began_at(self, pid: int, at: float) -> bool:
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            return near(p.started(self.proc, pid), at, NEAR)
        return False

    def _unpublished(self) -> dict[int, set[int]]:
        """Return the processes of each vLLM server that is not known to have another port here."""
        tops = {self._top(pid, port_of(self.words[pid])) for pid in self.servers}
        others = {pid for pid in self.servers if self._listens(pid) or self._is_published(pid)}
        heads = sorted(pid for pid in tops if not tops & self._parents(pid))
        wholes = {pid: self._whole(pid) for pid in heads}
        return {pid: whole for pid, whole in wholes.items() if not whole & others}

    def _published(self, inner: int, *, by_proxy: bool) -> set[int]:
        """
        Return the servers that may be published on the port, each in a network of its own.

        Where no proxy tells the port inside, any of them may be. It must have begun as the page
        says; where that does not say so, one must name the port, and none may be beside it.
        """
        apart = self._in_network(shared=False)
        named = self._named(inner, apart)
        every = named if by_proxy else apart
        if not named and (by_proxy or self.page_began is None):
            return set()
        found = self._of_page(every)
        if named and not found:
            raise Unclear(
                f"a vLLM server names port {inner} and did not begin when the page says that its "
                f"process did: it may be published on another port, or this host's clock was set "
                f"since"
            )
        return found

    def _listens(self, server: int, network: int | None = None) -> bool:
        """Whether a server's port is open in the network of a process, else in the host's."""
        place = self.proc if network is None else self.proc / str(network)
        return bool(p.listening(place / "net", port_of(self.words[server])))

    def _is_published(self, server: int) -> bool:
        """Whether Docker's proxy may hand another port of the host on to a server."""
        inner, outer = str(port_of(self.words[server])), str(self.port)
        return any(
            program(argv) == "docker-proxy"
            and option(argv, "-container-port") == inner
            and option(argv, "-host-port") != outer
            for argv in self.words.values()
        )

    def _top(self, pid: int, inner: int) -> int:
        """Climb from a worker of the API to the command that started it."""
        ports = {inner, port_of(self.words[pid])} if pid in self.servers else {inner}
        for _ in self.servers:  # so often at most: ids that are used anew may seem to go in a ring
            parent = self.seen[pid].parent
            if parent not in self.servers or port_of(self.words[parent]) not in ports:
                break
            pid = parent
        return pid

    def _parents(self, pid: int) -> set[int]:
        found: set[int] = set()
        while pid in self.seen and (pid := self.seen[pid].parent) not in found:
            found.add(pid)
        return found

    def _whole(self, root: int) -> set[int]:
        """Return its descendants and, where no other server is in it, what is in its group."""
        own = p.family([root], self.seen)
        match = _OWN_GROUP.search(group := p.group(self.proc, root))
        if match is None:
            return own
        place = group[: match.end()]
        groups = {pid: p.group(self.proc, pid) for pid in self.seen}
        mates = {pid for pid, at in groups.items() if at == place or at.startswith(f"{place}/")}
        return own if (mates - own) & self.servers else own | mates
