"""What Fetcher sends, follows and refuses, over real sockets."""

from __future__ import annotations

import base64
import gc
import socket
import ssl
import subprocess
import threading
import time

import pytest

from tests import hostile
from tests.hostile import HostileServer, Visit, answer, says
from watchdog.errors import CommandError, NoAnswer, NotUnderstood, ProbeError
from watchdog.fetch import Access, Fetcher, Page

LIMIT = 100_000


def get(url, path="/metrics", access=None, seconds=5.0, limit=LIMIT):
    fetcher = Fetcher(url, access or Access())
    return fetcher.get(path, time.monotonic() + seconds, limit)


def test_a_whole_answer_is_a_page():
    with HostileServer(says(b"hello\n")) as server:
        assert get(server.url) == Page(200, "text/plain; version=1.0.0; charset=utf-8", b"hello\n")


def test_a_chunked_answer_is_a_page():
    def chunked(visit):
        visit.send(
            hostile.HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n3\r\nlo\n\r\n0\r\n\r\n"
        )

    with HostileServer(chunked) as server:
        assert get(server.url).body == b"hello\n"


@pytest.mark.parametrize("status", ["404 Not Found", "503 Service Unavailable", "204 No Content"])
def test_every_status_is_an_answer(status):
    with HostileServer(says(b"", status=status)) as server:
        assert get(server.url).status == int(status[:3])


def test_the_request_asks_for_plain_text_uncompressed_and_once():
    with HostileServer(says(b"")) as server:
        get(server.url)
        (visit,) = server.visits
    assert visit.header("Accept-Encoding") == "identity"
    assert "openmetrics" not in visit.header("Accept")
    assert visit.header("Connection") == "close"
    assert visit.header("User-Agent").startswith("serving-watchdog/")
    assert visit.header("Authorization") is None


def test_the_prefix_of_the_base_is_kept():
    with HostileServer(says(b"")) as server:
        get(f"{server.url}/behind/", "/metrics")
        assert server.visits[0].path == "/behind/metrics"


def test_a_body_is_posted():
    with HostileServer(says(b"{}")) as server:
        page = Fetcher(server.url).post("/api", b'{"a": 1}', time.monotonic() + 5, LIMIT)
        (visit,) = server.visits
    assert page.status == 200
    assert visit.request.startswith(b"POST /api ")
    assert visit.request.endswith(b'\r\n\r\n{"a": 1}')
    assert visit.header("Content-Type") == "application/json"


def test_a_redirect_on_the_path_is_followed_with_the_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret\n")

    def moved(visit):
        if visit.path == "/metrics":
            visit.send(answer(b"", "307 Temporary Redirect", Location="/metrics/"))
        else:
            visit.send(answer(b"there\n"))

    with HostileServer(moved) as server:
        assert get(server.url, access=Access(bearer_token_file=token)).body == b"there\n"
        assert [v.path for v in server.visits] == ["/metrics", "/metrics/"]
        assert server.visits[1].header("Authorization") == "Bearer s3cret"


def test_an_absolute_redirect_to_the_same_server_is_followed():
    def moved(visit):
        place = f"http://{visit.header('Host')}/there"
        first = answer(b"", "301 Moved Permanently", Location=place)
        visit.send(answer(b"there\n") if visit.path == "/there" else first)

    with HostileServer(moved) as server:
        assert get(server.url).body == b"there\n"


def test_a_redirect_loop_ends():
    with HostileServer(hostile.redirects_for_ever) as server:
        with pytest.raises(NotUnderstood, match="redirects more than 3 times"):
            get(server.url)
        assert len(server.visits) == 4


@pytest.mark.parametrize("other", ["another host", "another port", "another scheme", "nonsense"])
def test_a_redirect_to_another_server_is_not_followed(other, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret")
    with HostileServer(says(b"not mine\n")) as stranger:
        places = {
            "another host": f"http://localhost:{stranger.port}/metrics",
            "another port": f"http://127.0.0.1:{stranger.port}/metrics",
            "another scheme": "file:///etc/passwd",
            "nonsense": "http://[::1/metrics",
        }
        moved = says(b"", status="302 Found", Location=places[other])
        with HostileServer(moved) as server:
            with pytest.raises(NotUnderstood, match="redirects to") as caught:
                get(server.url, access=Access(bearer_token_file=token))
        assert not stranger.visits
    assert "s3cret" not in str(caught.value)


def test_a_redirected_post_is_refused_unless_it_keeps_its_body():
    with HostileServer(says(b"", status="302 Found", Location="/x")) as server:
        with pytest.raises(NotUnderstood, match="redirects what is sent"):
            Fetcher(server.url).post("/api", b"{}", time.monotonic() + 5, LIMIT)
        assert len(server.visits) == 1


def test_the_proxies_of_the_environment_are_ignored(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password leaked\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with HostileServer(says(b"the proxy\n")) as proxy, HostileServer(says(b"me\n")) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert get(server.url).body == b"me\n"
        assert not proxy.visits
        assert server.visits[0].header("Authorization") is None


def test_no_connection_is_kept():
    """urllib3 keeps one that the server did not say it would close, and it is stale later."""
    ended = []

    def stays(visit):
        visit.send(answer(b"well\n"))
        ended.append(visit.sock.recv(100))

    with HostileServer(stays) as server:
        fetcher = Fetcher(server.url)
        for count in (1, 2, 3):
            assert fetcher.get("/", time.monotonic() + 5, LIMIT).body == b"well\n"
            assert hostile.wait_until(lambda count=count: ended == [b""] * count)
        assert len(server.visits) == 3


def test_cookies_are_not_sent_back():
    with HostileServer(says(b"", Set_Cookie="a=b; Path=/")) as server:
        fetcher = Fetcher(server.url)
        for _ in range(2):
            fetcher.get("/", time.monotonic() + 5, LIMIT)
        assert server.visits[1].header("Cookie") is None


def test_a_unix_socket_is_served(tmp_path):
    path = tmp_path / "vllm.sock"
    with HostileServer(says(b"here\n"), path=path) as server:
        assert get(server.url).body == b"here\n"
        assert get(f"{server.url}:/behind").body == b"here\n"
        assert [v.path for v in server.visits] == ["/metrics", "/behind/metrics"]


def test_an_absent_unix_socket_is_no_answer(tmp_path):
    with pytest.raises(NoAnswer, match="no such file"):
        get(f"unix://{tmp_path}/none.sock")


def test_a_token_is_read_anew_at_each_request(tmp_path):
    token = tmp_path / "token"
    with HostileServer(says(b"")) as server:
        fetcher = Fetcher(server.url, Access(bearer_token_file=token))
        for word in ("first", "second\n"):
            token.write_text(word)
            fetcher.get("/", time.monotonic() + 5, LIMIT)
        sent = [v.header("Authorization") for v in server.visits]
    assert sent == ["Bearer first", "Bearer second"]


def test_a_user_and_a_password_are_sent_as_basic(tmp_path):
    password = tmp_path / "password"
    password.write_text("pass:word\n")
    with HostileServer(says(b"")) as server:
        get(server.url, access=Access(username="me", password_file=password))
        sent = server.visits[0].header("Authorization")
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"me:pass:word"


def test_a_page_knows_what_nobody_is_to_read_in_it_and_does_not_show_it(tmp_path):
    (tmp_path / "password").write_text("pass:word\n")
    (tmp_path / "token").write_text("s3cr3t\n")
    with HostileServer(says(b"")) as server:
        page = get(server.url, access=Access(bearer_token_file=tmp_path / "token"))
        assert page.secrets == ("s3cr3t",)
        assert "s3cr3t" not in repr(page)
        page = get(server.url, access=Access(username="me", password_file=tmp_path / "password"))
        assert page.secrets == (base64.b64encode(b"me:pass:word").decode(), "pass:word")
        assert get(server.url, access=Access(username="me")).secrets[1:] == ()
        assert get(server.url).secrets == ()


@pytest.mark.parametrize("content", [None, b"", b"  \n", b"two\nlines", b"caf\xc3\xa9"])
def test_an_unusable_token_file_is_named_and_its_content_is_not(content, tmp_path):
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    with HostileServer(says(b"")) as server:
        with pytest.raises(ProbeError, match=f"bearer_token_file {token}") as caught:
            get(server.url, access=Access(bearer_token_file=token))
        assert not server.visits
    assert "lines" not in str(caught.value)


def test_a_refused_connection_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(NoAnswer, match=f"http://127.0.0.1:{port}/metrics: connection refused"):
        get(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("name", ["a" * 64, f"{'a' * 64}.example", "a..example", "é" * 60])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_that_no_host_can_have_is_no_answer(scheme, name):
    with pytest.raises(NoAnswer, match=f"{scheme}://{name}/metrics: no name that a host can have"):
        get(f"{scheme}://{name}")


def test_a_connection_closed_without_a_word_is_no_answer():
    with (
        HostileServer(hostile.hangs_up) as server,
        pytest.raises(NoAnswer, match="without an answer"),
    ):
        get(server.url)


def test_what_is_not_http_is_not_understood():
    with HostileServer(lambda v: v.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")) as server:
        with pytest.raises(NotUnderstood, match="does not answer in HTTP"):
            get(server.url)


def test_a_connection_that_is_reset_in_the_body_is_no_page():
    def resets(visit: Visit) -> None:
        visit.send(hostile.HEAD + b"Content-Length: 100\r\n\r\nhalf")
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        visit.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    with HostileServer(resets) as server, pytest.raises(ProbeError):
        get(server.url)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://x/", "http://", "http://h:0", "http://h:99999", "unix://host/x"],
)
def test_an_address_that_cannot_be_fetched_is_refused(url):
    with pytest.raises(CommandError, match="address"):
        Fetcher(url)


def test_a_password_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(CommandError, match="password_file") as caught:
        Fetcher("http://me:s3cret@127.0.0.1:8000")
    assert "s3cret" not in str(caught.value)


def test_a_prefix_is_not_told_because_it_may_be_a_secret():
    with HostileServer(hostile.hangs_up) as server, pytest.raises(NoAnswer) as caught:
        get(f"{server.url}/T000/s3cret", "")
    assert "s3cret" not in str(caught.value)
    assert str(server.port) in str(caught.value)


def test_close_breaks_a_request_that_blocks_and_the_next_one_works():
    silent = threading.Event()

    def behaviour(visit):
        if visit.path == "/silent":
            silent.set()
            visit.server.stopping.wait(60)
        visit.send(answer(b"well\n"))

    with HostileServer(behaviour) as server:
        fetcher = Fetcher(server.url)
        errors = []

        def blocked():
            try:
                fetcher.get("/silent", time.monotonic() + 60, LIMIT)
            except ProbeError as error:
                errors.append(error)

        thread = threading.Thread(target=blocked)
        thread.start()
        assert silent.wait(10)
        fetcher.close()
        thread.join(10)
        assert not thread.is_alive()
        assert "given up" in str(errors[0])
        assert isinstance(errors[0], NoAnswer)
        fetcher.close()  # nothing under way: nothing happens
        assert fetcher.get("/", time.monotonic() + 5, LIMIT).body == b"well\n"


def test_requests_of_two_threads_wait_for_each_other():
    with HostileServer(says(b"well\n")) as server:
        fetcher = Fetcher(server.url)
        pages = []

        def fetch():
            pages.append(fetcher.get("/", time.monotonic() + 10, LIMIT))

        threads = [threading.Thread(target=fetch) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert [page.body for page in pages] == [b"well\n"] * 8


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for the name `serving.test` alone, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=serving.test", "-addext",
         "subjectAltName=DNS:serving.test", "-keyout", folder / "key", "-out", folder / "cert"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return folder / "cert", folder / "key"


@pytest.fixture
def tls_server(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    with HostileServer(says(b"sealed\n"), tls=context) as server:
        yield server


def test_tls_with_our_own_authority_and_name(tls_server, certificate):
    access = Access(ca_file=certificate[0], server_name="serving.test")
    assert get(tls_server.url, access=access).body == b"sealed\n"


def test_tls_with_another_name_is_no_answer(tls_server, certificate):
    with pytest.raises(NoAnswer, match="TLS failed: .*mismatch"):
        get(tls_server.url, access=Access(ca_file=certificate[0]))


def test_tls_with_an_unknown_authority_is_no_answer(tls_server):
    with pytest.raises(NoAnswer, match="TLS failed: self-signed certificate"):
        get(tls_server.url)


def test_tls_that_nobody_verifies_works_where_it_is_asked_for(tls_server):
    access = Access(insecure_skip_verify=True)
    assert get(tls_server.url, access=access).body == b"sealed\n"


def test_an_absent_certificate_is_named(tls_server, tmp_path):
    with pytest.raises(ProbeError, match="cannot use the certificates .*none.pem"):
        get(tls_server.url, access=Access(ca_file=tmp_path / "none.pem"))


def test_a_tls_handshake_that_never_comes_ends_at_the_deadline():
    with HostileServer(hostile.says_nothing) as server:
        began = time.monotonic()
        with pytest.raises(NoAnswer, match="before the deadline"):
            get(server.url.replace("http:", "https:"), seconds=0.4)
        assert time.monotonic() - began < 2


def test_close_breaks_a_tls_handshake():
    with HostileServer(hostile.says_nothing) as server:
        fetcher = Fetcher(server.url.replace("http:", "https:"))
        thread = threading.Thread(target=lambda: pytest.raises(
            NoAnswer, fetcher.get, "/", time.monotonic() + 60, LIMIT))  # fmt: skip
        thread.start()
        assert hostile.wait_until(lambda: bool(server.visits) or bool(server._open))
        fetcher.close()
        thread.join(10)
        assert not thread.is_alive()


def test_a_fetcher_that_nobody_has_any_more_leaves_nothing_behind():
    """The daemon makes new ones at each reload, and runs for years."""
    with HostileServer(says(b"x")) as server:
        for _ in range(20):
            get(server.url)
    gc.collect()
    kinds = {type(thing).__name__ for thing in gc.get_objects()}
    assert "HostileServer" in kinds
    assert kinds.isdisjoint({"LineAdapter", "_Pools"})
