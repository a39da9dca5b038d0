import pytest

from lmdbio.reader.cursor import Cursor, check_epoch

N = 10


def test_epochs_follow_one_another() -> None:
    cursor = Cursor()
    assert [(cursor.begin(N), cursor.epoch, cursor.start) for _ in range(3)] == [
        (False, 0, 0),
        (True, 1, 0),
        (True, 2, 0),
    ]


def test_a_chosen_epoch_begins_anew() -> None:
    cursor = Cursor()
    cursor.choose(4)
    assert (cursor.begin(N), cursor.epoch) == (False, 4)
    cursor.choose(4)
    assert not cursor.is_begun
    assert (cursor.begin(N), cursor.epoch, cursor.start) == (False, 4, 0)


@pytest.mark.parametrize(
    ("chosen", "position", "expected"),
    [
        ([], 3, (2, 3)),
        ([2], 3, (2, 3)),
        ([2, 2], 3, (2, 3)),
        ([3], 3, (3, 0)),
        ([3, 2], 3, (2, 0)),
        ([], N, (3, 0)),  # nothing is left of it
        ([2], N, (2, N)),  # which is what was asked for
        ([3], N, (3, 0)),
    ],
)
def test_a_loaded_position_is_kept_for_its_epoch_alone(
    chosen: list[int], position: int, expected: tuple[int, int]
) -> None:
    cursor = Cursor()
    cursor.begin(N)
    cursor.load(2, position)
    for epoch in chosen:
        cursor.choose(epoch)
    assert cursor.begin(N) is False
    assert (cursor.epoch, cursor.start) == expected
    assert cursor.begin(N) is True
    assert (cursor.epoch, cursor.start) == (expected[0] + 1, 0)


def test_what_is_no_epoch_is_named() -> None:
    check_epoch(0)
    with pytest.raises(ValueError, match="epoch: expected 0 or more, found -1"):
        check_epoch(-1)
    with pytest.raises(TypeError):
        check_epoch(1.5)  # type: ignore[arg-type]
