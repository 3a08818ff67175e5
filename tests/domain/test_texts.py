"""Texts of others: on one line, printable, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.domain.texts import cut, one_line, printable

ANY = st.text(st.characters(exclude_categories=()))  # halves of surrogate pairs too


def test_one_line_is_cut_with_a_mark():
    assert one_line("x" * 11, 10) == "xxxxxxx..."
    assert one_line("x" * 10, 10) == "x" * 10
    assert one_line("  a \n b ", 10) == "a b"


@given(ANY, st.integers(3, 20))
def test_whatever_it_is_it_is_one_bounded_printable_line_that_can_be_sent(text, most):
    line = one_line(text, most)
    assert len(line) <= most
    assert line.isprintable()
    assert line == " ".join(line.split())
    assert line.encode() is not None
    assert one_line(line, most) == line


@pytest.mark.parametrize(
    ("text", "shown"), [("  a  b", "  a  b"), ("a\x1b[31m\r\nb\u202ec", "a [31m  b c")]
)
def test_what_cannot_be_printed_is_a_space_and_columns_stay(text, shown):
    assert printable(text) == shown


@given(ANY, st.integers(3, 20))
def test_a_text_that_is_cut_keeps_its_lines(text, most):
    short = cut(text, most)
    assert len(short) <= most
    assert short.encode() is not None
    assert cut("a\nb", 3) == "a\nb"
