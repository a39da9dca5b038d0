import pytest

from lmdbio.cli.failure import CommandError
from lmdbio.cli.launch import Launch, find_launch, require_one_process


@pytest.mark.parametrize(
    ("environment", "launch"),
    [
        ({}, Launch(0, 1)),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, Launch(2, 4)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Launch(1, 2)),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"}, Launch(3, 8)),
        # mpiexec within a Slurm job: the inner launcher counts
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, Launch(1, 2)),
        # the shell of a batch script for 8 tasks is one process
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Launch(0, 1)),
        ({"PMI_RANK": "x", "PMI_SIZE": "4"}, Launch(0, 1)),
    ],
)
def test_the_launcher_says_which_rank_this_is(environment: dict[str, str], launch: Launch) -> None:
    assert find_launch(environment) == launch


def test_several_ranks_are_refused_where_one_output_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "1")
    require_one_process()
    monkeypatch.setenv("PMI_SIZE", "3")
    with pytest.raises(CommandError, match="expected one process, found 3 ranks"):
        require_one_process()
