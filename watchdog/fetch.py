"""
One HTTP answer, whole or not at all: total deadline, byte limit, nobody else's settings.

`requests` bounds each read, not the sum: a server that sends a byte a second, or a header a
second, holds it for ever. So the sockets are ours: before every read and write they take what
is left until the deadline as their timeout, and another thread may shut them down.
Nothing is read from the environment (no proxy, no netrc), and no cookie is kept.
"""

from __future__ import annotations

import base64
import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import requests
import urllib3

from watchdog import __product__, __version__
from watchdog.errors import CommandError, NoAnswer, NotUnderstood, ProbeError
from watchdog.fetch_sockets import Line, LineAdapter, reason_of, tls_context, told
from watchdog.redaction import masked

MOST_REDIRECTS = 3
_MOST_PATHS = 16
_PIECE = 65_536
_HEADER_BYTES = 262_144
_WORDS_WAIT = 1.0
_Read = Callable[[requests.Response], bytes]
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REPEATED = frozenset({307, 308})  # these alone keep the method and the body

_HEADERS = {
    "User-Agent": f"{__product__}/{__version__}",
    # Never openmetrics: some releases of vLLM's exporter then write vllm_ for vllm:.
    "Accept": "text/plain, */*;q=0.5",
    # A compressed answer may be a bomb; none is asked for, none is unpacked.
    "Accept-Encoding": "identity",
    # A kept connection is stale by the next round and would fail for nothing (see `hang_up`).
    "Connection": "close",
}


@dataclass(frozen=True)
class Access:
    """How to be let in. Secrets are files, read at each request, so they can be rotated."""

    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


NO_ACCESS = Access()
"""For a server that lets everybody in."""


@dataclass(frozen=True)
class Page:
    """
    What a server answered: every status counts as an answer, redirects aside.

    `secrets` were sent to it, so it may repeat them: nobody is to read them.
    """

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)  # names in any case
    secrets: tuple[str, ...] = field(default=(), compare=False, repr=False)


class Fetcher:
    """
    Fetches from one server, one request at a time.

    `base_url` is `http(s)://host:port[/prefix]` or `unix:///path/to.sock[:/prefix]`.
    `exact`: it is one whole address, whose last slash stays, and a status is an answer: of a body
    comes what comes within a second, because what was sent has arrived and must not come twice.
    Raises NoAnswer, NotUnderstood, or their parent ProbeError where a secret or a certificate
    of ours cannot be read. Messages hold neither secrets nor the prefix, which may be one.
    """

    def __init__(self, base_url: str, access: Access = NO_ACCESS, *, exact: bool = False) -> None:
        self._base, self._socket = _base(base_url)
        if exact and self._socket is None:
            self._base = self._base._replace(path=urlsplit(base_url).path)
        self._read = _beginning if exact else _body
        self._access = access
        self._one_at_a_time = threading.Lock()
        self._line: Line | None = None
        self._adapter: LineAdapter | None = None
        self._made_of: object = None
        self._prepared: dict[str, requests.PreparedRequest] = {}
        place = (
            f"unix:{self._socket}" if self._socket else f"{self._base.scheme}://{_host(self._base)}"
        )
        self.shown = place + ("/..." if self._base.path else "")
        if access.insecure_skip_verify:
            # The operator asked for it in the config; a warning at each scrape says nothing new.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def get(self, path: str, deadline: float, limit: int) -> Page:
        """GET base + `path`; `deadline` in monotonic seconds, at most `limit` bytes of body."""
        return self._fetch("GET", path, None, {}, deadline, limit)

    def post(
        self,
        path: str,
        body: bytes,
        deadline: float,
        limit: int,
        content_type: str = "application/json",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Page:
        """POST `body` to base + `path`, with `headers` of its own; as `get`."""
        headers = {"Content-Type": content_type, **headers}
        return self._fetch("POST", path, body, headers, deadline, limit)

    def close(self) -> None:
        """Break what is being fetched just now. For any thread, at any time; no end for good."""
        line = self._line
        if line is not None:
            line.shut()

    def _fetch(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
        limit: int,
    ) -> Page:
        shown = self.shown + path
        if not self._one_at_a_time.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise NoAnswer(f"{shown}: the request before is still under way")
        secrets: tuple[str, ...] = ()
        line = Line(deadline, (limit + _HEADER_BYTES) * (MOST_REDIRECTS + 1), self._socket)
        try:
            adapter = self._ready()
            self._line = adapter.line = line
            request = self._request(method, path, body)
            authorization, secrets = _credentials(self._access)
            request.headers.update({**headers, **authorization})
            page = _followed(adapter, request, line, partial(self._read, line=line, limit=limit))
            return replace(page, secrets=secrets)
        except NotUnderstood as error:
            raise NotUnderstood(f"{shown} {masked(str(error), secrets)}") from error
        except (UnicodeError, requests.exceptions.InvalidURL) as error:  # a label of 64 letters
            raise NoAnswer(f"{shown}: no name that a host can have") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise _why(error, line, shown) from error
        finally:
            self._line = None
            line.end()
            self._one_at_a_time.release()

    def _request(self, method: str, path: str, body: bytes | None) -> requests.PreparedRequest:
        """Return the request; one without a body is put together once, as it is sent for months."""
        known = self._prepared.get(path) if body is None else None
        if known is not None:
            return known.copy()
        url = urlunsplit(self._base) + path
        request = requests.Request(method, url, _HEADERS, data=body).prepare()
        if body is None and len(self._prepared) < _MOST_PATHS:
            self._prepared[path] = request.copy()
        return request

    def _ready(self) -> LineAdapter:
        """Return the adapter; made anew where a certificate file has changed."""
        files = (self._access.ca_file, self._access.cert_file, self._access.key_file)
        try:
            made_of = [file.stat().st_mtime_ns for file in files if file]
            if self._adapter is None or made_of != self._made_of:
                secure = self._base.scheme == "https"
                context = tls_context(*files) if secure else None
                if context is not None and self._access.insecure_skip_verify:
                    context.check_hostname = False
                    context.verify_mode = ssl.CERT_NONE
                self._adapter = LineAdapter(context, self._access.server_name)
                self._made_of = made_of
        except OSError as error:  # an ssl.SSLError is one too
            named = ", ".join(str(file) for file in files if file)
            raise ProbeError(f"cannot use the certificates {named}: {reason_of(error)}") from error
        return self._adapter


def _followed(
    adapter: LineAdapter, request: requests.PreparedRequest, line: Line, read: _Read
) -> Page:
    """Send the request, and again where it is redirected within the same server."""
    for _ in range(MOST_REDIRECTS + 1):
        answer = _exchange(adapter, request, line, read)
        if isinstance(answer, Page):
            return answer
        request.prepare_url(_redirected(request.url or "", answer), None)
    raise NotUnderstood(f"redirects more than {MOST_REDIRECTS} times")


def _exchange(
    adapter: LineAdapter, request: requests.PreparedRequest, line: Line, read: _Read
) -> Page | str:
    """Send one request; return its page, or the place that it redirects to."""
    try:
        # Never 0 or less, which urllib3 refuses; the sockets know that the deadline is over.
        timeout = max(0.001, line.left())
        answer = adapter.send(request, stream=True, timeout=timeout, verify=adapter.verify)
        with contextlib.closing(answer) as response:
            location = response.headers.get("Location")
            if response.status_code not in _REDIRECTS or not location:
                body = read(response)
                content_type = response.headers.get("Content-Type", "")
                return Page(response.status_code, content_type[:200], body, response.headers)
            if request.method != "GET" and response.status_code not in _REPEATED:
                raise NotUnderstood("redirects what is sent to it; use the final address")
            return location
    finally:
        adapter.hang_up()


def _beginning(response: requests.Response, line: Line, limit: int) -> bytes:
    """Read what comes of the body, `limit` bytes at most; nothing about it can go wrong."""
    line.deadline = min(line.deadline, time.monotonic() + _WORDS_WAIT)
    with contextlib.suppress(
        requests.RequestException, urllib3.exceptions.HTTPError, OSError, ProbeError
    ):
        piece: bytes = response.raw.read(limit, decode_content=False)
        return piece
    return b""


def _body(response: requests.Response, line: Line, limit: int) -> bytes:  # noqa: ARG001
    """Read the whole body, which is as long as announced and not compressed."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise NotUnderstood(f"answered with {encoding[:40]!r} compression, unasked")
    announced = response.headers.get("Content-Length")
    if "chunked" in response.headers.get("Transfer-Encoding", "").lower():
        announced = None
    if announced is not None and not (announced.isascii() and announced.isdigit()):
        raise NotUnderstood(f"announced {announced[:40]!r} bytes, which is no length")
    if announced is not None and (len(announced) > 18 or int(announced) > limit):
        raise NotUnderstood(f"announced {announced} bytes, more than {limit}")
    whole = None if announced is None else int(announced)
    pieces: list[bytes] = []
    size = 0
    while size != whole and (piece := response.raw.read(_PIECE, decode_content=False)):
        size += len(piece)
        if size > limit:
            raise NotUnderstood(f"sent more than {limit} bytes")
        pieces.append(piece)
    if size != whole and whole is not None:
        raise NotUnderstood(f"was cut: {size} of {announced} bytes came")
    return b"".join(pieces)


def _redirected(url: str, location: str) -> str:
    """Return the address to go on with: the same scheme, host and port as before, or none."""
    try:
        old, new = urlsplit(url), urlsplit(urljoin(url, location))
        same = (old.scheme, old.hostname, _port(old)) == (new.scheme, new.hostname, _port(new))
        place = f"{new.scheme}://{_host(new)}"[:200].encode("unicode_escape").decode()
    except ValueError as error:
        raise NotUnderstood("redirects to what is no address") from error
    if not same:
        raise NotUnderstood(
            f"redirects to another server ({place}); write that address if it is the right one"
        )
    return urlunsplit(new._replace(netloc=old.netloc, fragment=""))


def _why(error: Exception, line: Line, shown: str) -> ProbeError:
    """Turn what the libraries raise into an error of ours; the deadline explains most."""
    if line.shut_down:
        return NoAnswer(f"{shown} was given up at the deadline")
    if line.left() <= 0:
        return NoAnswer(f"{shown} did not answer in full before the deadline of {line.given:.3g} s")
    return told(error, shown)


def _base(base_url: str) -> tuple[SplitResult, str | None]:
    """Split the address; the socket's path where it is a Unix one."""
    try:
        url = urlsplit(base_url)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme == "unix" and url.path.startswith("/") and not url.netloc:
        socket, _, prefix = url.path.partition(":")
        return urlsplit("http://localhost" + prefix.rstrip("/")), socket
    if url.username is not None or url.password is not None:
        raise CommandError(
            "an address with a user or a password in it: use username, password_file"
        )
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise CommandError("no address that can be fetched: http(s)://host:port or unix:///path")
    return url._replace(path=url.path.rstrip("/"), fragment=""), None


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2][:200]


def _port(url: SplitResult) -> int | None:
    return url.port or {"http": 80, "https": 443}.get(url.scheme)


def _credentials(access: Access) -> tuple[dict[str, str], tuple[str, ...]]:
    """The Authorization header, its secret read anew, and what in it is secret."""
    if access.bearer_token_file is not None:
        token = secret("bearer_token_file", access.bearer_token_file)
        return {"Authorization": f"Bearer {token}"}, (token,)
    if access.username is not None:
        password = ""
        if access.password_file is not None:
            password = secret("password_file", access.password_file)
        pair = base64.b64encode(f"{access.username}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}, (pair, *filter(None, (password,)))
    return {}, ()


def secret(key: str, file: Path) -> str:
    """Read the one line of a file. ProbeError names `key`, which named the file, and the file."""
    try:
        with file.open("rb") as stream:
            line = stream.read(_PIECE).decode("ascii").strip()
    except UnicodeDecodeError:
        line = ""
    except OSError as error:
        raise ProbeError(f"cannot read {key} {file}: {reason_of(error)}") from error
    if not line or not line.isprintable():
        raise ProbeError(f"{key} {file} must hold one line of printable ASCII")
    return line
