"""Texts of others, made safe to keep, to send and to print."""

from __future__ import annotations


def one_line(text: str, most: int) -> str:
    """Make a text safe to print: one line, no control characters, no half surrogates, bounded."""
    if len(text) <= most and " " not in text and text.isprintable():
        return text  # the common case: a name, a value, an address
    text = text[: 4 * most].encode("utf-8", "replace").decode("utf-8")
    line = " ".join(printable(text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def printable(text: str) -> str:
    """Put a space for each character that cannot be printed, line ends too; columns stay."""
    return "".join(c if c.isprintable() else " " for c in text)


def cut(text: str, most: int) -> str:
    """Bound a text of many lines; half a surrogate pair cannot be sent, so it is replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= most else text[: most - 3] + "..."
