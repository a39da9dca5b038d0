import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("skimage", reason="the demo extra is not installed")
pytest.importorskip("sklearn", reason="the demo extra is not installed")

ROOT = Path(__file__).parents[2]
HAS_LAUNCHER = Path(sys.executable).with_name("mpiexec").exists() or shutil.which("mpiexec") is not None


@pytest.mark.skipif(not HAS_LAUNCHER, reason="no mpiexec")
def test_the_small_demonstration_goes_from_photographs_to_a_table(tmp_path: Path) -> None:
    (tmp_path / "demo" / "lmdb" / "left by an earlier run").mkdir(parents=True)
    (tmp_path / "demo" / "notes.txt").write_text("of somebody else")
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo", str(tmp_path / "demo"), "--small"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in (tmp_path / "demo" / "lmdb").iterdir()) == ["train.lmdb", "val.lmdb"]
    assert (tmp_path / "demo" / "notes.txt").exists()
    assert done.stdout.count("differences  none") == 2
    assert "48 records, each read exactly once" in done.stdout
    table = done.stdout[done.stdout.rindex("MB/s\n") :]
    for name in ("converting", "indexing", "stock cursor", "stock get", "lmdbio, block", "lmdbio, global"):
        assert f"\n{name}" in table
    with Image.open(tmp_path / "demo" / "contact-sheet.png") as sheet:
        assert sheet.width == 4 * 96
