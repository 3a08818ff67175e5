"""What is a claim, what a report, and when the two agree."""

from __future__ import annotations

import time

import pytest

from watchdog.domain.version_claims import (
    LOG,
    PACKAGE,
    PAGE,
    Version,
    agree,
    as_rows,
    best,
    claims_of,
    from_rows,
    is_version,
    packages_of,
)

TITLE, VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"


@pytest.mark.parametrize(
    ("claim", "report", "same"),
    [
        ("0.27.1", "0.27.1", True),
        ("0.27.1", "0.27.2", False),
        ("0.6.2", "0.9.3", False),  # the incident
        ("v0.27.1", "0.27.1", True),
        ("0.27.1", "v0.27.1", True),
        ("0.27", "0.27.0", True),
        ("0.27", "0.27.9", True),
        ("0.27", "0.28.0", False),
        ("0.2", "0.27.1", False),  # numbers, not letters
        ("0.27.0", "0.27", True),
        ("0.27.1", "0.27", True),  # as torch tells of ROCm: nothing is known of the third part
        ("0.27.1", "0.28", False),
        ("0.27.1", "0.27.1+rocm714", True),
        ("0.27.1+rocm714", "0.27.1+rocm714", True),
        ("0.27.1+rocm714", "0.27.1+cu128", False),
        ("0.27.1+rocm714", "0.27.1", True),  # what reports does not say
        ("2.8.0a0+34c6371d24.nv25.08", "2.8.0a0+34c6371d24.nv25.8", True),
        ("2.8.0+CU128", "2.8.0+cu128", True),
        ("0.11.1", "0.11.1rc2.dev38+g1c57644", True),
        ("0.11.1rc2", "0.11.1rc2.dev38+g1c57644", True),
        ("0.11.1rc1", "0.11.1rc2", False),
        ("0.11.1rc1", "0.11.1", False),
        ("0.11.1-rc.1", "0.11.1rc1", True),
        ("0.11.1alpha1", "0.11.1a1", True),
        ("0.1.5.post3", "0.1.5.post2", False),
        ("7.0.2", "7.0.2", True),
        ("latest", "0.27.1", None),
        ("0.27.1", "dev", None),
        ("27", "27.1", None),
        ("", "0.27.1", None),
    ],
)
def test_a_report_agrees_as_far_as_the_claim_goes(
    claim: str, report: str, same: bool | None
) -> None:
    assert agree(claim, report) is same


@pytest.mark.parametrize(
    "text", ["0.27.1", "v1.2", "2.9.0a0+git1c57644", "0.10.1.1+381074ae.nv25.09", "6.4.1"]
)
def test_these_are_versions(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "main", "latest", "release/2.9", "eb1fd3c", "2", "sk-seeded-1.2.3", "1.2.3 4"),
        *("1.2\n", "1." + "2" * 80, "1.2+", "1..2", "https://a.b/1.2", "70000"),
    ],
)
def test_these_are_none(text: str) -> None:
    assert not is_version(text)


def test_a_text_that_is_made_to_be_slow_is_judged_at_once() -> None:
    began = time.monotonic()
    for filler in ("rc", "a-", "-a", "a.1", ".dev", "1.", "a_", "+a"):
        assert not is_version(("1.2" + filler * 64)[:63] + "!")
    assert time.monotonic() - began < 1


def test_variables_of_known_components_claim_and_others_do_not() -> None:
    environ = {
        "RADIANCE_VERSION": "0.6.2", "PYTORCH_VERSION": "2.11.0", "AITER_VERSION": "main",
        "CUDA_VERSION": "12.8.1", "PYTHON_VERSION": "3.12.3", "VLLM_API_KEY": "1.2.3",
        "RADIANCE_VERSION_KEY": "1.2.3",
    }  # fmt: skip
    assert claims_of(environ, None) == [
        ("radiance", "0.6.2", "environment RADIANCE_VERSION"),
        ("torch", "2.11.0", "environment PYTORCH_VERSION"),
    ]
    assert claims_of(None, None) == []


def test_a_label_claims_of_the_component_in_its_name() -> None:
    labels = {"ai.radiance.version": "0.9.3", "vllm_version": "v0.27.1", "version": "1.2",
              "com.nvidia.cudnn.version": "9.1.0", "my.torchvision.version": "1.2"}  # fmt: skip
    assert claims_of(None, labels) == [
        ("radiance", "0.9.3", "image label ai.radiance.version"),
        ("vllm", "v0.27.1", "image label vllm_version"),
    ]


@pytest.mark.parametrize(
    ("title", "component"),
    [("radiance", "radiance"), ("vllm/vllm-openai", "vllm"), ("PyTorch", "torch"), ("ubuntu", "")],
)
def test_the_standard_label_claims_of_what_the_image_is_called(title: str, component: str) -> None:
    found = claims_of(None, {TITLE: title, VERSION: "0.9.3"})
    expected = [(component, "0.9.3", f"image label {VERSION}")] if component else []
    assert found == expected


def test_the_label_of_a_base_image_is_no_claim_of_vllm() -> None:
    """Images on NVIDIA's base inherit Ubuntu's: 22.04 is nobody's version of vLLM."""
    assert claims_of(None, {VERSION: "22.04", "org.opencontainers.image.ref.name": "ubuntu"}) == []


def test_what_is_installed_reports_and_what_is_no_component_does_not() -> None:
    versions = {"vllm": "0.27.1", "cuda": "12.8.90", "torch": "unknown"}
    assert packages_of(versions) == [("vllm", "0.27.1", PACKAGE)]


def test_the_report_that_is_nearest_to_the_program_counts() -> None:
    reports = [Version("vllm", str(n), by) for n, by in enumerate(("?", PACKAGE, LOG, PAGE))]
    for wanted in (PAGE, LOG, PACKAGE, "?"):
        found = best(reports)
        assert found is not None
        assert found.by == wanted
        reports.remove(found)
    assert best(reports) is None


def test_rows_are_read_back_and_odd_ones_left_out() -> None:
    rows = as_rows([Version("vllm", "0.27.1", PAGE)])
    assert list(from_rows(rows)) == [("vllm", "0.27.1", PAGE)]
    odd = [None, 7, {}, {"component": "vllm", "version": 1, "by": "x"}, {"component": ""}]
    assert list(from_rows([*odd, *rows])) == [("vllm", "0.27.1", PAGE)]
    assert list(from_rows("text")) == list(from_rows(None)) == []
    assert len(list(from_rows(rows * 1000))) == 32
