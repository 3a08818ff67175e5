"""Reading what others wrote: only regular files, only so much, and never held up."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from watchdog.regular_files import OddFileError, content, opened, shown, why


def test_a_file_of_just_the_most_is_read_and_one_byte_more_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")

    assert content(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OddFileError, match="has 5 bytes, more than 4"):
        content(tmp_path / "file", 4)


def test_a_file_that_tells_no_size_is_bounded_too():
    """Those of /proc have none, and may never end."""
    with pytest.raises(OddFileError, match="has more than 10 bytes"):
        content(Path("/proc/self/status"), 10)


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_takes_a_files_place_before_it_is_opened_does_not_block(tmp_path, monkeypatch, kind):
    path = tmp_path / "file"
    path.touch()
    known = os.open

    def swapped(*args):
        path.unlink()
        {
            "pipe": lambda: os.mkfifo(path),
            "device": lambda: path.symlink_to("/dev/zero"),
            "directory": path.mkdir,
        }[kind]()
        return known(*args)

    monkeypatch.setattr(os, "open", swapped)

    with pytest.raises(OSError, match=r"regular file|[Dd]irectory"):
        content(path, 10)


def test_a_link_is_followed_unless_it_must_not_be(tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")

    assert content(tmp_path / "link", 5) == b"1"
    with pytest.raises(OddFileError, match="is a link"):
        content(tmp_path / "link", 5, follow=False)


def test_a_file_that_becomes_a_link_before_it_is_opened_is_not_followed(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.touch()
    (tmp_path / "other").write_bytes(b"secret")
    known = os.open

    def swapped(*args):
        path.unlink()
        path.symlink_to("other")
        return known(*args)

    monkeypatch.setattr(os, "open", swapped)

    with pytest.raises(OSError) as caught:  # noqa: PT011  (its number is what counts)
        content(path, 10, follow=False)

    assert caught.value.errno == errno.ELOOP


def test_nothing_stays_open(tmp_path):
    (tmp_path / "file").touch()
    with opened(tmp_path / "file") as (descriptor, _):
        pass

    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOENT, ""), "is not there"),
        (OSError(errno.EIO, ""), "could not be read: Input/output error"),
        (OSError(), "could not be read: Input/output error"),
        (OddFileError("is odd"), "is odd"),
    ],
)
def test_an_error_is_told_in_words(error, words):
    assert why(error) == words


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("a\nb\x1b[31m", "a?b?[31m"),
        ("\udcff", "?"),
        ("x" * 10, "x" * 10),
        ("x" * 11, "xxxxxxx..."),
    ],
)
def test_a_foreign_text_is_shown_in_one_line(text, line):
    assert shown(text, 10) == line
