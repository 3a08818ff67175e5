"""Reading small files below a root, and the failures that a recording holds."""

from __future__ import annotations

import errno

import pytest

from watchdog.tree import Tree, errno_name


@pytest.mark.parametrize(
    ("name", "number"),
    [("EBUSY", errno.EBUSY), ("EPERM\n", errno.EPERM), ("ENODATA", errno.ENODATA)],
)
def test_a_recorded_failure_is_raised_as_it_was(tmp_path, name, number):
    (tmp_path / "pp_dpm_pcie.errno").write_text(name)

    with pytest.raises(OSError) as caught:  # noqa: PT011  (its number is what counts)
        Tree(tmp_path).text("pp_dpm_pcie")

    assert caught.value.errno == number
    assert errno_name(caught.value) == name.strip()


@pytest.mark.parametrize("name", ["errorcode", "__doc__", "EWHATEVER", "", "\x00"])
def test_a_recorded_failure_of_no_known_name_is_a_failure_all_the_same(tmp_path, name):
    (tmp_path / "vendor.errno").write_text(name)

    with pytest.raises(OSError) as caught:  # noqa: PT011  (as above)
        Tree(tmp_path).text("vendor")

    assert caught.value.errno == errno.EIO


def test_a_file_that_is_there_counts_more_than_a_recorded_failure(tmp_path):
    (tmp_path / "vendor").write_text("0x1002\n")
    (tmp_path / "vendor.errno").write_text("EIO")

    assert Tree(tmp_path).text("vendor") == "0x1002\n"


def test_an_absent_file_is_absent(tmp_path):
    with pytest.raises(FileNotFoundError):
        Tree(tmp_path).text("vendor")


def test_no_more_is_read_than_asked_for(tmp_path):
    (tmp_path / "endless").write_bytes(b"x" * 10_000)

    assert len(Tree(tmp_path).data("endless", 100)) == 100


def test_a_link_is_followed_and_told_relative_to_the_root(tmp_path):
    (tmp_path / "devices/pci0000:00/0000:00:02.0").mkdir(parents=True)
    (tmp_path / "bus").mkdir()
    (tmp_path / "bus/card").symlink_to("../devices/pci0000:00/0000:00:02.0")

    assert Tree(tmp_path).real("bus/card") == "devices/pci0000:00/0000:00:02.0"
