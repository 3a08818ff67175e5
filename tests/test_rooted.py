"""Paths of another root: links stay inside, and none goes round for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proc_tree import link, write
from watchdog.rooted import MOST_PARTS, inside


def test_a_path_without_links_is_below_the_root(tmp_path: Path) -> None:
    assert inside(tmp_path, "/a/./b//c") == tmp_path / "a/b/c"


def test_an_absolute_link_leads_to_the_other_root_and_not_to_ours(tmp_path: Path) -> None:
    link(tmp_path / "opt/rocm", "/etc/alternatives/rocm")
    link(tmp_path / "etc/alternatives/rocm", "/opt/rocm-7")
    assert inside(tmp_path, "/opt/rocm/.info/version") == tmp_path / "opt/rocm-7/.info/version"


@pytest.mark.parametrize("target", ["/../../secret", "../../../../secret", "/a/../../../secret"])
def test_no_link_leads_out(tmp_path: Path, target: str) -> None:
    write(tmp_path / "secret", "ours")
    root = tmp_path / "one/two"
    link(root / "a/out", target)
    assert inside(root, "/a/out") == root / "secret"
    assert inside(root, "/../../secret") == root / "secret"


def test_a_circle_is_an_error_and_no_endless_walk(tmp_path: Path) -> None:
    link(tmp_path / "a", "/b")
    link(tmp_path / "b", "a")
    with pytest.raises(OSError, match="symbolic links"):
        inside(tmp_path, "/a/c")
    link(tmp_path / "grow", "grow/" * 100)
    with pytest.raises(OSError, match="symbolic links"):
        inside(tmp_path, "/grow")


def test_a_path_beyond_all_bounds_is_an_error(tmp_path: Path) -> None:
    inside(tmp_path, "/a" * MOST_PARTS)
    with pytest.raises(OSError, match="too long"):
        inside(tmp_path, "/a" * (MOST_PARTS + 1))
