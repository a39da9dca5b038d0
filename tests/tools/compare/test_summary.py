from tools.compare.questions import Question
from tools.compare.results import Results, Run
from tools.compare.summary import summary

_QUESTION = Question("read", "photos", "local", "cold", "sequential", 1)
_Seconds = dict[tuple[str, str], list[float]]


def _results(seconds: _Seconds, *, n_records: int = 1000) -> Results:
    facts = {"n_records": n_records, "n_bytes": n_records * 100_000}
    runs = [
        Run(_QUESTION.name, number, *row, "", seconds=one, **facts)
        for row, of_row in seconds.items()
        for number, one in enumerate(of_row)
    ]
    return Results({}, {}, [_QUESTION], runs=runs)


def _lines(*comparisons: Results) -> list[list[str]]:
    lines = [line for line in summary(comparisons).splitlines() if line.startswith("| Read")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_question_takes_a_line_with_the_best_way_the_nearest_peer_and_the_ratios() -> None:
    seconds = {
        ("lmdbio", "sequential"): [2.0, 2.0],
        ("lmdbio", "sequential direct"): [1.0, 1.0],
        ("stock", "cursor"): [1.5, 1.5],
        ("files", "sequential"): [4.0, 4.0],
        ("dd", "8 x 1 MiB direct"): [0.5, 0.5],
        ("dd", "equal depth, 8 x 2 MiB direct"): [0.1, 0.1],
    }
    assert _lines(_results(seconds)) == [
        [_QUESTION.title, "1,000", "lmdbio, sequential direct", "100", "stock, cursor", "67", "1.50 x", "0.50", "2"]
    ]


def test_rounds_of_several_runs_count_together_and_none_is_taken_for_one_of_another() -> None:
    fast = _results({("lmdbio", "block"): [1.0], ("stock", "get"): [2.0]})
    slow = _results({("lmdbio", "block"): [10.0], ("stock", "get"): [40.0], ("mds", "it"): [90.0]})
    ((*_, times, _, rounds),) = _lines(fast, slow)
    assert (times, rounds) == ("3.00 x", "2")


def test_a_peer_measured_on_a_slow_day_is_compared_with_ours_of_that_day() -> None:
    fast = _results({("lmdbio", "block"): [1.0, 1.0], ("stock", "get"): [9.0, 9.0]})
    slow = _results({("lmdbio", "block"): [10.0], ("mds", "it"): [20.0]})
    ((_, _, _, ours, peer, theirs, times, _, rounds),) = _lines(fast, slow)
    assert (ours, peer, theirs, times, rounds) == ("10", "mds, it", "5", "2.00 x", "1")


def test_other_numbers_of_records_are_other_lines() -> None:
    seconds: _Seconds = {("lmdbio", "block"): [1.0]}
    lines = _lines(_results(seconds), _results(seconds, n_records=2000))
    assert [line[1] for line in lines] == ["1,000", "2,000"]
    assert lines[0][4:] == ["", "", "", "", "1"]


def test_what_failed_is_not_in_it() -> None:
    results = _results({("lmdbio", "block"): [1.0], ("stock", "get"): [2.0]})
    results.runs.append(Run(_QUESTION.name, 1, "stock", "get", "", failure="no room"))
    assert _lines(results)[0][4] == ""
