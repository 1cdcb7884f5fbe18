"""What every disk does, the machine's own and the one that forgets; and what only the latter forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.log import RealDisk

from .forgetful import ForgetfulDisk


@pytest.fixture(params=["real", "forgetful"])
def disk_and_folder(request, tmp_path):
    if request.param == "real":
        return RealDisk(), tmp_path
    disk = ForgetfulDisk(ManualClock())
    disk.make_folder(Path("/d"))
    return disk, Path("/d")


def test_files(disk_and_folder):
    disk, folder = disk_and_folder
    with pytest.raises(FileNotFoundError):
        disk.open(folder / "a")
    with disk.open(folder / "a", create=True) as file:
        file.write(3, b"defg")
        file.write(0, b"abc")
        assert file.read(0, 100) == b"abcdefg"
        assert file.read(2, 3) == b"cde"
        assert file.read(7, 3) == b""
        view = bytearray(4)
        assert file.read_into(5, memoryview(view)) == 2
        assert view == b"fg\0\0"
        file.truncate(2)
        assert file.size() == 2
        file.fsync()
        assert file.linked()
        disk.unlink(folder / "a")
        assert not file.linked()
        assert file.read(0, 9) == b"ab", "an open file outlives its name"
    disk.unlink(folder / "a")
    assert not disk.exists(folder / "a")


def test_folders_and_names(disk_and_folder):
    disk, folder = disk_and_folder
    disk.make_folder(folder / "b")
    with pytest.raises(FileExistsError):
        disk.make_folder(folder / "b")
    disk.open(folder / "b" / "x", create=True).close()
    disk.rename(folder / "b", folder / "c")
    assert disk.names(folder) == ["c"]
    assert disk.names(folder / "c") == ["x"]
    disk.make_folder(folder / "d")
    with pytest.raises(OSError, match="not empty"):
        disk.rename(folder / "d", folder / "c")
    disk.fsync_folder(folder)
    disk.remove_folder(folder / "c")
    disk.remove_folder(folder / "c")
    assert disk.names(folder) == ["d"]
    disk.make_folders(folder / "e" / "f" / "g")
    disk.fsync_way(folder / "e" / "f" / "g")
    assert disk.exists(folder / "e" / "f" / "g")


def test_replacing_a_file(disk_and_folder):
    disk, folder = disk_and_folder
    disk.replace(folder / "m", b"one")
    with disk.open(folder / "m") as old:
        disk.replace(folder / "m", b"two")
        assert not old.linked()
        assert old.read(0, 9) == b"one"
    assert disk.read_whole(folder / "m") == b"two"
    assert disk.source(folder / "m").read() == b"two"
    assert disk.modified_us(folder / "m") > 0


def test_locks_keep_apart(disk_and_folder):
    disk, folder = disk_and_folder
    with disk.lock(folder / "l"):
        pass
    with disk.lock(folder / "l"):
        assert disk.exists(folder / "l")


def outcomes(story):
    """Everything that a power cut after the story may leave."""
    found = set()
    for seed in range(200):
        disk = ForgetfulDisk(ManualClock(), seed)
        disk.make_folder(Path("/d"))
        disk.fsync_folder(Path("/"))
        story(disk)
        disk.power_cut()
        found.add(disk.read_whole(Path("/d/a")) if disk.exists(Path("/d/a")) else None)
    return found


def test_what_was_not_fsynced_may_be_gone_in_part():
    def written(disk):
        disk.open(Path("/d/a"), create=True).write(0, b"ab")
        disk.fsync_folder(Path("/d"))

    assert outcomes(written) >= {b"", b"ab", b"a", b"\0b"}

    def fsynced(disk):
        written(disk)
        disk.open(Path("/d/a")).fsync()

    assert outcomes(fsynced) == {b"ab"}


def test_a_name_that_was_not_fsynced_may_be_gone():
    def unnamed(disk):
        file = disk.open(Path("/d/a"), create=True)
        file.write(0, b"x")
        file.fsync()

    assert outcomes(unnamed) == {None, b"x"}

    def replaced(disk):
        disk.replace(Path("/d/a"), b"1")
        with disk.open(Path("/d/b"), create=True) as file:
            file.write(0, b"2")
            file.fsync()
        disk.rename(Path("/d/b"), Path("/d/a"))

    assert outcomes(replaced) == {b"1", b"2"}


def test_what_a_failed_fsync_lost_stays_lost():
    def failed(disk):
        file = disk.open(Path("/d/a"), create=True)
        disk.fsync_folder(Path("/d"))
        file.write(0, b"x")
        disk.arm("eio", 1)
        with pytest.raises(OSError, match="input/output"):
            file.fsync()
        assert file.read(0, 1) == b"x", "it can still be read"
        file.fsync()

    assert None not in outcomes(failed)
    assert b"" in outcomes(failed)
