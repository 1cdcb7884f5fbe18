"""Every file operation of the log, behind one small interface.

Nothing else in `headrace.log` touches the file system. Tests put a disk in its place that forgets what was not fsynced,
file by file and name by name, that tears writes and fails fsyncs; `RealDisk` is the machine's own.

Two facts decide the shape: a file's content and a file's name become durable apart from each other (`DiskFile.fsync` and
`Disk.fsync_folder`), and `rename` is the only way to replace a file so that a reader sees the old or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa


class DiskFile(ABC):
    """An open file. Positions are always given: no file has a current position that anybody could trust."""

    @abstractmethod
    def read(self, at: int, length: int) -> bytes:
        """The bytes from `at`, fewer than `length` where the file ends."""

    @abstractmethod
    def read_into(self, at: int, view: memoryview) -> int:
        """Fill `view` from `at`; how many bytes there were."""

    @abstractmethod
    def write(self, at: int, data: bytes) -> None:
        """Write all of `data` at `at`; not durable before `fsync`."""

    @abstractmethod
    def size(self) -> int:
        """How long the file is."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut the file; not durable before `fsync`."""

    @abstractmethod
    def fsync(self) -> None:
        """Return when the content is durable. Where this raises, nobody knows what is."""

    @abstractmethod
    def linked(self) -> bool:
        """Whether the file still has a name: a deleted file can be open for ever."""

    @abstractmethod
    def close(self) -> None:
        """Give the file back."""

    def __enter__(self) -> DiskFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Disk(ABC):
    """The file operations that the log is made of."""

    @abstractmethod
    def open(self, path: Path, *, create: bool = False) -> DiskFile:
        """Open a file for reading and writing; `FileNotFoundError` where there is none and `create` is not set."""

    @abstractmethod
    def make_folder(self, path: Path) -> None:
        """Make one folder; its parent exists, and it does not."""

    @abstractmethod
    def rename(self, old: Path, new: Path) -> None:
        """Give a file or folder another name, replacing a file, never a folder with something in it."""

    @abstractmethod
    def unlink(self, path: Path) -> None:
        """Remove a file's name; harmless when it is gone."""

    @abstractmethod
    def remove_folder(self, path: Path) -> None:
        """Remove a folder with everything in it; harmless when it is gone."""

    @abstractmethod
    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted."""

    @abstractmethod
    def exists(self, path: Path) -> bool:
        """Whether there is a file or folder of this name."""

    @abstractmethod
    def modified_us(self, path: Path) -> int:
        """When a file was last written, in microseconds since 1970."""

    @abstractmethod
    def fsync_folder(self, path: Path) -> None:
        """Return when the names in a folder are durable."""

    @abstractmethod
    def lock(self, path: Path) -> contextlib.AbstractContextManager[None]:
        """Hold the lock file, waiting for whoever does. The death of its holder releases it; stopping it does not."""

    def source(self, path: Path) -> pa.NativeFile:
        """A file that never changes again, for Arrow to read."""
        return pa.BufferReader(self.read_whole(path))

    def read_whole(self, path: Path) -> bytes:
        """All bytes of a file."""
        with self.open(path) as file:
            return file.read(0, file.size())

    def make_folders(self, path: Path) -> None:
        """Make a folder and the parents that are missing; their names are durable after `fsync_way`."""
        if self.exists(path):
            return
        self.make_folders(path.parent)
        with contextlib.suppress(FileExistsError):
            self.make_folder(path)

    def fsync_way(self, path: Path) -> None:
        """Make every name on the way to `path` durable: whoever made a folder may have died before doing so."""
        for folder in path.absolute().parents:
            with contextlib.suppress(PermissionError):  # what others keep from us, we did not make
                self.fsync_folder(folder)

    def replace(self, path: Path, data: bytes) -> None:
        """Put a whole file in the place of another, durably: written beside, fsynced, renamed, folder fsynced.

        Two writers of one file must be kept apart by a lock: they would share the name beside.
        """
        beside = path.with_name(path.name + ".tmp")
        with self.open(beside, create=True) as file:
            file.truncate(0)
            file.write(0, data)
            file.fsync()
        self.rename(beside, path)
        self.fsync_folder(path.parent)


class RealFile(DiskFile):
    """A file of the machine."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, at: int, length: int) -> bytes:
        data = os.pread(self._fd, length, at)
        while len(data) < length:  # the kernel hands out at most 2 GB at once
            more = os.pread(self._fd, length - len(data), at + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, at: int, view: memoryview) -> int:
        done = 0
        while done < len(view):
            got = os.preadv(self._fd, [view[done:]], at + done)
            if not got:
                break
            done += got
        return done

    def write(self, at: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            done = os.pwrite(self._fd, rest, at)
            rest, at = rest[done:], at + done

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        # fdatasync includes the length of the file, and leaves out times that nobody needs.
        getattr(os, "fdatasync", os.fsync)(self._fd)

    def linked(self) -> bool:
        return os.fstat(self._fd).st_nlink > 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


class RealDisk(Disk):
    """The machine's file system."""

    def open(self, path: Path, *, create: bool = False) -> RealFile:
        return RealFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))

    def make_folder(self, path: Path) -> None:
        os.mkdir(path)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        if not path.is_dir():
            return
        for child in path.iterdir():
            if child.is_dir():
                self.remove_folder(child)
            else:
                self.unlink(child)
        path.rmdir()

    def names(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def source(self, path: Path) -> pa.NativeFile:
        return pa.memory_map(str(path))

    def modified_us(self, path: Path) -> int:
        return os.stat(path).st_mtime_ns // 1000

    def fsync_folder(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def lock(self, path: Path) -> Iterator[None]:
        # Opened anew each time: flock belongs to the open file, so that two threads, or a process and its fork,
        # that shared one would both hold the lock.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)
