import pytest

from lmdbio.reader.cursor import Cursor, checked_epoch

N = 10


def is_over(start: int) -> bool:
    return start >= N


def test_epochs_follow_one_another() -> None:
    cursors = [Cursor()]
    for _ in range(3):
        cursors.append(cursors[-1].begin(is_over))
    assert [(cursor.epoch, cursor.start, cursor.is_begun) for cursor in cursors] == [
        (0, 0, False),
        (0, 0, True),
        (1, 0, True),
        (2, 0, True),
    ]


def test_a_chosen_epoch_begins_anew() -> None:
    chosen = Cursor(3, 7, is_begun=True).choose(4)
    assert (chosen.epoch, chosen.start, chosen.is_begun) == (4, 0, False)
    assert chosen.begin(is_over).choose(4).begin(is_over) == Cursor(4, 0, is_begun=True)


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
    cursor = Cursor(2, position, is_loaded=True)
    for epoch in chosen:
        cursor = cursor.choose(epoch)
    begun = cursor.begin(is_over)
    assert (begun.epoch, begun.start) == expected
    assert begun.begin(is_over) == Cursor(expected[0] + 1, 0, is_begun=True)


def test_what_is_no_epoch_is_named() -> None:
    assert checked_epoch(0) == 0
    with pytest.raises(ValueError, match="epoch: expected 0 or more, found -1"):
        checked_epoch(-1)
    with pytest.raises(TypeError):
        checked_epoch(1.5)  # type: ignore[arg-type]
