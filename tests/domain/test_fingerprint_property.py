"""Whatever the order of words and variables: what is listed changes a fingerprint, alone."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.domain.test_fingerprint import BASE, ENVIRON, OPTIONS, launch, line
from watchdog.domain.command_line_words import is_flag
from watchdog.domain.factors import FAMILIES, GRAPHS, counts
from watchdog.domain.fingerprint import compare, fingerprint_of
from watchdog.domain.masking import is_secret

PLAIN = sorted(
    name
    for row in GRAPHS
    for name in row.names
    if not {" ", "*"} & set(name) and name not in ("image", "model", "drafter")
)
ORDERS = (st.permutations(list(OPTIONS.items())), st.permutations(list(ENVIRON.items())))
VALUES = st.text("abcXYZ019._/", min_size=1, max_size=12)


@given(
    *ORDERS, st.sampled_from([name for name in PLAIN if not is_flag(name)]), VALUES, st.booleans()
)
def test_any_listed_option_changes_it_in_any_order_and_spelling(
    options: list[tuple[str, str | None]],
    environ: list[tuple[str, str]],
    name: str,
    value: str,
    joined: bool,
) -> None:
    assume(OPTIONS.get(f"--{name}") != value)
    words = line({key: old for key, old in options if key != f"--{name}"})
    option = f"--{name.replace('-', '_')}"
    words += [f"{option}={value}"] if joined else [option, value]

    other = fingerprint_of(launch(argv=words, environ=dict(environ)))

    assert [one.name for one in compare(BASE, other).changed] == [name]
    assert other.digest != BASE.digest


@given(
    *ORDERS,
    st.sampled_from(FAMILIES),
    st.text("ABCXYZ_019", min_size=1, max_size=12),
    VALUES,
    st.integers(1024, 65535),
)
def test_any_variable_of_a_family_changes_it_whatever_the_port_is(
    options: list[tuple[str, str | None]],
    environ: list[tuple[str, str]],
    family: str,
    name: str,
    value: str,
    port: int,
) -> None:
    variable = f"{family}_{name}"
    assume(counts(f"env {variable}") and not is_secret(variable) and variable not in ENVIRON)
    given_options = {**dict(options), "--port": str(port)}

    other = fingerprint_of(
        launch(argv=line(given_options), environ={**dict(environ), variable: value})
    )

    assert [one.name for one in compare(BASE, other).changed] == [f"env {variable}"]
