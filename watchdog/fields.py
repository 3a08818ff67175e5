"""What single values of the configuration may be, and the sentence for each that may not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from watchdog.domain.profile import ANY_ROUTING, PREFIX_AWARE
from watchdog.duration import format_duration
from watchdog.limits import read_duration

RESERVED: Final = frozenset(
    {
        "alertname", "severity", "host", "target", "engine", "model_name", "probe", "replica",
        "slot",
    }
)  # fmt: skip
"""Labels that an alert has of itself; a configured one would change its identity."""

CREDENTIALS: Final = "$CREDENTIALS_DIRECTORY/"
"""What systemd's LoadCredential= sets; a file may be named from there."""

_WIDTHS: Final = (1, 2, 4, 8, 12, 16, 32)
_PORTS: Final = {"http": 80, "https": 443}
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._:-]+")
_NAME = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._:-]{1,128}")
_METHOD = re.compile(r"[a-z0-9_]{1,64}")
_VERSION = re.compile(r"v?[0-9][A-Za-z0-9.+_!-]{0,63}")
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,240}\.(?:service|scope|slice)")
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FACTOR = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_.* -]{0,119}")
_ROUTING = re.compile(f"{ANY_ROUTING}|{PREFIX_AWARE}")
_ADDRESS = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")


def name_of(url: str) -> str:
    """Return a target's default name: host:port, or the stem of the Unix socket."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return _NOT_IN_A_NAME.sub("-", Path(parts.path.partition(":")[0]).stem)
    port = parts.port or _PORTS[parts.scheme]
    return _NOT_IN_A_NAME.sub("-", f"{parts.hostname}:{port}")


def _url(text: str) -> str:
    """Refuse what cannot be fetched. Messages do not repeat the text: it may hold a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("is no URL, or its port is none; write http://host:port") from None
    if "@" in text:
        raise ValueError("holds a user or password; name a file: bearer_token_file, password_file")
    if not text.isprintable() or " " in text or parts.query or parts.fragment:
        raise ValueError("must be scheme, host, port and path alone")
    if parts.scheme == "unix":
        if parts.netloc or not parts.path.partition(":")[0].strip("/"):
            raise ValueError("a Unix socket is written unix:///path/to.sock")
        return text
    if parts.scheme not in _PORTS:
        raise ValueError("must begin with http://, https:// or unix://")
    if not parts.hostname or port == 0:
        raise ValueError("names no host; write http://host:port")
    return text.rstrip("/")


def server_url(text: str) -> str:
    """A vLLM server's address, or that of its page where that is elsewhere (.../metrics)."""
    text = _url(text)
    if text.endswith("/v1"):
        raise ValueError("leave /v1 off; the metrics are beside it, not below it")
    return text


def alertmanager_url(text: str) -> str:
    text = _url(text)
    if text.endswith(("/api/v2", "/api/v2/alerts", "/api/v1/alerts")):
        raise ValueError("leave /api/... off; it is added")
    return text


def place_url(text: str) -> str:
    """An address that is used as it is; one that holds a secret is given by url_file."""
    if urlsplit(text).query:
        raise ValueError("has a query, which is often a secret; write it into a file: url_file")
    _url(text)
    return text


def secret_url(text: str) -> str:
    """The content of a url_file: as `place_url`, and it may have a query."""
    address, _, query = text.strip().partition("?")
    _url(address)
    if not query.isprintable() or " " in query or "#" in query:
        raise ValueError("holds more than one address")
    return text.strip()


def _file(value: Any) -> Path:
    """A path that means the same wherever we are started; its text is not repeated."""
    text = value.replace("${CREDENTIALS_DIRECTORY}/", CREDENTIALS) if isinstance(value, str) else ""
    if not text.startswith(("/", CREDENTIALS)) or not text.isprintable():
        raise ValueError(f"must be the absolute path of a file (or begin with {CREDENTIALS})")
    return Path(text)


def listen_address(text: str) -> str:
    host, port = split_listen(text)
    if not host or not 0 <= port <= 65535:
        raise ValueError("must be host:port; 127.0.0.1:19590, or for all interfaces 0.0.0.0:19590")
    return text


def split_listen(text: str) -> tuple[str, int]:
    """Part host and port of `listen`; a port of -1 means that there is none."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    odd = not bare or not text.isprintable() or " " in text or (":" in bare and bare == host)
    return "" if odd else bare, int(port) if port.isdecimal() and len(port) <= 5 else -1


def label_name(text: str) -> str:
    if text in RESERVED:
        raise ValueError(f"is a label of every alert; reserved: {', '.join(sorted(RESERVED))}")
    if not _LABEL.fullmatch(text):
        raise ValueError("may hold letters, digits and _, and not begin with a digit or __")
    return text


def pci_address(text: str) -> str:
    """A PCI address in full, `0000:05:00.0`; without its domain it is of domain 0000."""
    text = text.lower()
    if not _ADDRESS.fullmatch(text):
        raise ValueError("must be a PCI address such as 0000:05:00.0")
    return text if text.count(":") == 2 else f"0000:{text}"


def lanes(width: int) -> int:
    """A width that PCIe has."""
    if width not in _WIDTHS:
        raise ValueError(f"must be one of {', '.join(map(str, _WIDTHS))} lanes")
    return width


def _directory(value: Any) -> Path:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise ValueError("must be the absolute path of a directory")
    return Path(value)


def _text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be text of one line, and not empty")
    return text


def _matching(pattern: re.Pattern[str], what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(what)
        return text

    return AfterValidator(check)


def _no_number(value: Any) -> Any:
    """YAML reads 0.27 as a number, and 0.30 as 0.3."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError('must be quoted, or YAML makes a number of it: "0.27.1"')  # noqa: TRY004
    return value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Duration = Annotated[
    float,
    BeforeValidator(read_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
File = Annotated[Path, BeforeValidator(_file)]
Directory = Annotated[Path, BeforeValidator(_directory)]
Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[str, _matching(_NAME, "may hold letters, digits, and . _ : - (128 at most)")]
Method = Annotated[
    str,
    BeforeValidator(_lower),
    _matching(_METHOD, "may hold letters, digits and _; such as eagle3, mtp, dflash, ngram"),
]
Routing = Annotated[str, _matching(_ROUTING, f"must be {ANY_ROUTING} or {PREFIX_AWARE}")]
Version = Annotated[
    str, BeforeValidator(_no_number), _matching(_VERSION, 'must be a version such as "0.27.1"')
]
Unit = Annotated[
    str, _matching(_UNIT, "must be the full name of a systemd unit, such as vllm.service")
]
Container = Annotated[str, _matching(_CONTAINER, "must be a container's name or ID")]
FactorName = Annotated[
    str,
    _matching(_FACTOR, "must be an option without dashes, or a variable; `*` stands for any rest"),
]
