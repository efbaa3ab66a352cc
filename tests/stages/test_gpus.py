"""GPUs are leased: never two jobs on one, whatever ends a job; who waits says so."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from refork.errors import EngineError
from refork.stages import gpus
from refork.stages.gpus import Gpu, lease_gpus, list_gpus

JOB = textwrap.dedent("""
    import json, os, sys, time
    from pathlib import Path
    from refork.stages import gpus
    folder, count, number, seconds, children = Path(sys.argv[1]), *map(float, sys.argv[2:])
    gpus.SECONDS_BETWEEN_TRIES = 0.01
    devices = [gpus.Gpu(index, "NVIDIA H200", f"GPU-{index}") for index in range(int(number))]
    gpus.lease_gpus(int(count), "NVIDIA H200", devices, folder)
    assert "torch" not in sys.modules
    if children and not os.fork():
        time.sleep(60)
    began = time.monotonic()
    print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    time.sleep(seconds)
    print(json.dumps([began, time.monotonic()]), flush=True)
""")
FOUR = [Gpu(index, "NVIDIA H200", f"GPU-{index}") for index in range(4)]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be given no GPUs, and forget those that are leased."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")  # so that it is put back, whatever is set meanwhile
        monkeypatch.delenv(name)
    held: list[object] = []
    monkeypatch.setattr(gpus, "_HELD", held)
    yield
    for file in held:
        file.close()  # type: ignore[attr-defined]


@pytest.fixture
def start(tmp_path: Path, bare: None) -> Iterator[Start]:
    """Start jobs that lease some of the devices of one machine."""
    jobs = []

    def begin(
        count: int, of: int, seconds: float = 60, child: bool = False
    ) -> "subprocess.Popen[str]":
        numbers = [str(each) for each in (count, of, seconds, int(child))]
        command = [sys.executable, "-c", JOB, str(tmp_path), *numbers]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = subprocess.Popen(command, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
        jobs.append(job)
        return job  # type: ignore[no-any-return]

    yield begin
    for job in jobs:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


def leased(job: "subprocess.Popen[str]") -> set[int]:
    """Return the devices of a job, once it has them."""
    assert job.stdout is not None
    return {int(index) for index in job.stdout.readline().split(",")}


def test_no_two_jobs_run_on_one_gpu(start: Start) -> None:
    counts = [1, 2, 1, 1, 3, 1, 2]
    jobs = [start(count, of=3, seconds=0.3) for count in counts]
    spans = []
    for job, count in zip(jobs, counts, strict=True):
        devices = leased(job)
        assert len(devices) == count
        assert devices <= {0, 1, 2}
        assert job.stdout is not None
        spans.append((devices, *json.loads(job.stdout.readline())))
    for place, (devices, began, ended) in enumerate(spans):
        for others, other_began, other_ended in spans[:place]:
            apart = ended <= other_began or other_ended <= began
            assert apart or not devices & others
    side_by_side = sum(
        one[1] < other[2] and other[1] < one[2] for one in spans for other in spans if one != other
    )
    assert side_by_side > 0


def test_a_job_that_waits_says_so_and_a_killed_one_gives_its_gpu_back(start: Start) -> None:
    first = start(1, of=1)
    assert leased(first) == {0}
    second = start(1, of=1)
    assert second.stderr is not None
    said = second.stderr.readline()
    assert said == "refork: waits for 1 of 1 GPUs, which other jobs have leased\n"
    assert second.poll() is None
    first.kill()
    assert leased(second) == {0}
    assert second.stderr.readline() == "refork: runs on GPU 0\n"


def test_a_gpu_is_leased_as_long_as_a_process_of_the_job_lives(start: Start) -> None:
    first = start(1, of=1, child=True)
    assert leased(first) == {0}
    first.kill()
    second = start(1, of=1)
    assert second.stderr is not None
    assert "waits for" in second.stderr.readline()
    time.sleep(0.1)
    assert second.poll() is None
    os.killpg(first.pid, signal.SIGKILL)
    assert leased(second) == {0}


def test_who_waits_for_many_is_not_overtaken(start: Start) -> None:
    first, other = start(1, of=2), start(1, of=2)
    assert leased(first) | leased(other) == {0, 1}
    many = start(2, of=2)
    assert many.stderr is not None
    assert "waits for 2 of 2" in many.stderr.readline()
    one = start(1, of=2)
    assert one.stderr is not None
    assert "waits for 1 of 2" in one.stderr.readline()
    first.kill()
    time.sleep(0.2)
    assert one.poll() is None
    other.kill()
    assert leased(many) == {0, 1}
    many.kill()
    assert len(leased(one)) == 1


def test_a_job_sees_what_it_has_leased(bare: None, tmp_path: Path) -> None:
    lease_gpus(2, "NVIDIA H200 NVIDIA_TF32_OVERRIDE=0", FOUR, tmp_path)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    lease_gpus(2, "NVIDIA H200", FOUR, tmp_path)  # has them already
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"


@pytest.mark.parametrize(("name", "value"), [("CUDA_VISIBLE_DEVICES", "3"), ("SLURM_JOB_ID", "12")])
def test_a_job_takes_what_it_was_given(
    name: str, value: str, bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    lease_gpus(2, "NVIDIA H200", FOUR, tmp_path)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == (value if "CUDA" in name else None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["1,3", "GPU-1,GPU-3"])
def test_of_more_than_it_asks_for_a_job_leases_its_part(
    given: str, bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setattr(gpus, "SECONDS_BETWEEN_TRIES", 0.01)
    for index in ("1", "3"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
        lease_gpus(1, "NVIDIA H200", FOUR, tmp_path)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == index
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,7,8")
    with pytest.raises(EngineError, match="asks for 2 GPUs, but 1 of a kind can be had here"):
        lease_gpus(2, "NVIDIA H200", FOUR, tmp_path)


def test_a_job_without_gpus_leases_none(bare: None, tmp_path: Path) -> None:
    lease_gpus(0, "NVIDIA H200", [], tmp_path)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_of_unlike_gpus_the_locked_one_is_taken(bare: None, tmp_path: Path) -> None:
    lease_gpus(1, "NVIDIA H200", [Gpu(0, "NVIDIA T1000", "GPU-x"), *FOUR[1:]], tmp_path)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


def test_too_few_gpus_are_said(bare: None, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"asks for 5 GPUs, but 4 of a kind can be had"):
        lease_gpus(5, "NVIDIA H200", FOUR, tmp_path)
    with pytest.raises(EngineError, match=r"asks for 1 GPUs, but 0 of a kind can be had"):
        lease_gpus(1, "NVIDIA H200", [], tmp_path)


def test_gpus_are_listed_by_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1d0a)'\n"
        "echo '  MIG 1g.18gb     Device  0: (UUID: MIG-77)'\n"
        "echo 'GPU 1: NVIDIA RTX A2000 12GB (UUID: GPU-2)'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert list_gpus() == [
        Gpu(0, "NVIDIA H200", "GPU-1d0a"),
        Gpu(1, "NVIDIA RTX A2000 12GB", "GPU-2"),
    ]
    program.write_text("#!/bin/sh\nexit 9\n")
    with pytest.raises(EngineError, match=r"cannot be listed.*exit status 9.*CUDA_VISIBLE_DEVICES"):
        list_gpus()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match=r"cannot be listed.*nvidia-smi"):
        list_gpus()


def test_the_folder_of_locks_is_the_users_own(
    bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "SHARED", tmp_path / "locks")
    lease_gpus(1, "NVIDIA H200", FOUR)
    [folder] = tmp_path.glob("locks-*")
    assert folder.name == f"locks-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} == {"queue", "GPU-0"}
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    (tmp_path / "locks-12345").mkdir()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with pytest.raises(EngineError, match="locks-12345: belongs to another user"):
        lease_gpus(1, "NVIDIA H200", FOUR)
