import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from lmdbio.cli.sizes import binary_namesake, format_rate, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("4096", 4096),
        ("4096B", 4096),
        ("1KiB", 1024),
        ("16MiB", 16 << 20),
        ("16 mib", 16 << 20),
        ("2GiB", 2 << 30),
        ("3TiB", 3 << 40),
        ("64K", 64 << 10),
        ("1m", 1 << 20),
        ("0.5G", 1 << 29),
        (512, 512),
    ],
)
def test_a_size_is_bytes_or_a_number_with_a_binary_unit(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "0", "0MiB", "MiB", "-1", "16MB", "1KB", "1e6", "0x10", "1 2", "²", "1.5", "0.3KiB", "nan", "999999999999TiB"],
)
def test_what_is_no_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="found " + repr(text).replace(".", r"\.")):
        parse_size(text)


@pytest.mark.parametrize(("text", "meant"), [("16MB", "16MiB"), ("1.5gb", "1.5GiB"), ("1 KB", "1KiB")])
def test_a_decimal_unit_is_asked_after(text: str, meant: str) -> None:
    with pytest.raises(typer.BadParameter, match=rf"did you mean {meant}\?"):
        parse_size(text)


@given(st.integers(1, 999), st.sampled_from([(3, "KiB"), (6, "MiB"), (9, "GiB"), (12, "TiB")]))
def test_a_decimal_number_has_a_binary_namesake(number: int, power_and_unit: tuple[int, str]) -> None:
    power, unit = power_and_unit
    assert binary_namesake(number * 10**power) == f"{number}{unit}"
    assert binary_namesake(number) is None


@given(st.integers(1, 1 << 60))
def test_a_bare_number_is_itself(number: int) -> None:
    assert parse_size(str(number)) == number


@given(st.integers(0, 1 << 50))
def test_a_printed_size_can_be_given_back_and_is_within_a_twentieth(number: int) -> None:
    mantissa, unit = format_size(number).split()
    again = float(mantissa) * parse_size(f"1{unit}")
    assert again == pytest.approx(number, rel=0.06, abs=0.5)


def test_a_rate_of_no_time_is_no_error() -> None:
    assert format_rate(0, 0.0) == "0.0 MB/s"
