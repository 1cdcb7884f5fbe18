"""A disk in memory that forgets: what was not fsynced is gone after a power cut, file by file and name by name.

It passes the same tests as the real disk (`test_disk.py`), and it can strike at any of its operations:

- `cut`: the power goes. Of the writes of each file since its last fsync any may be there, in part too; of the names of each
  folder since its last fsync any state may be there.
- `kill`: the process dies and the machine goes on: everything written is there.
- `eio`: a write, a truncation or an fsync fails, once. What the failed fsync should have kept may be lost for ever, although
  it can still be read: a later fsync that succeeds does not bring it back. That is how Linux does it.

Not claimed: losses of what was fsynced (flipped bits are made by the tests themselves), and writes that go elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import random
import threading
from pathlib import Path

from headrace.log.disk import Disk, DiskFile


class Died(BaseException):
    """The process does not live any more: no handler of errors may help it."""


class Inode:
    def __init__(self):
        self.content = bytearray()
        self.durable = b""
        self.pending = []
        self.links = 0
        self.modified_us = 0

    def apply(self, change):
        self.pending.append(change)
        _apply(self.content, change)

    def survive(self, rng):
        """What is on the disk after a power cut now."""
        kept = bytearray(self.durable)
        for change in self.pending:
            fate = rng.random()
            if fate < 0.4:
                _apply(kept, change)
            elif fate < 0.7 and change[0] == "write":
                _, at, data = change
                low = rng.randrange(len(data) + 1)
                high = rng.randrange(low, len(data) + 1)
                _apply(kept, ("write", at + low, data[low:high]))
        return bytes(kept)

    def settle(self, content):
        self.content, self.durable, self.pending = bytearray(content), bytes(content), []


def _apply(content, change):
    if change[0] == "truncate":
        del content[change[1] :]
        content.extend(bytes(change[1] - len(content)))
    else:
        _, at, data = change
        content.extend(bytes(max(0, at - len(content))))
        content[at : at + len(data)] = data


class Node:
    """A folder: each name with what it meant since the last fsync, the newest last."""

    def __init__(self):
        self.names = {}

    def get(self, name):
        return self.names[name][-1] if name in self.names else None

    def put(self, name, what):
        self.names.setdefault(name, [None]).append(what)

    def survive(self, rng):
        for name, versions in list(self.names.items()):
            kept = rng.choice((versions[0], versions[-1], rng.choice(versions)))
            if kept is None:
                del self.names[name]
            else:
                self.names[name] = [kept]
                if isinstance(kept, Node):
                    kept.survive(rng)
                else:
                    kept.settle(kept.survive(rng))


class ForgetfulFile(DiskFile):
    def __init__(self, disk, inode):
        self._disk, self.inode = disk, inode

    def read(self, at, length):
        return bytes(self.inode.content[at : at + length])

    def read_into(self, at, view):
        data = self.read(at, len(view))
        view[: len(data)] = data
        return len(data)

    def write(self, at, data):
        half = ("write", at, bytes(data[: len(data) // 2]))
        self._disk.step("write", lambda: self.inode.apply(half))
        self.inode.apply(("write", at, bytes(data)))
        self.inode.modified_us = self._disk.clock.now_us()

    def size(self):
        return len(self.inode.content)

    def truncate(self, size):
        self._disk.step("truncate")
        self.inode.apply(("truncate", size))

    def fsync(self):
        self._disk.step("fsync", self._lose)
        kept = bytearray(self.inode.durable)
        for change in self.inode.pending:  # not the content: what a failed fsync lost is not written again
            _apply(kept, change)
        self.inode.durable, self.inode.pending = bytes(kept), []

    def _lose(self):
        self.inode.durable, self.inode.pending = self.inode.survive(self._disk.rng), []

    def linked(self):
        return self.inode.links > 0

    def close(self):
        pass


class ForgetfulDisk(Disk):
    def __init__(self, clock, seed=0):
        self.clock, self.rng = clock, random.Random(seed)
        self.root = Node()
        self.steps, self.strike_at, self.strike = 0, None, None
        self.dead = False
        self.struck = []
        self._locks = {}

    # --- faults

    def step(self, what, half=lambda: None):
        """One operation that changes something; the strike comes in its middle."""
        if self.dead:
            raise Died
        self.steps += 1
        if self.steps == self.strike_at:
            self.struck.append((self.strike, what))
            if self.strike == "eio":
                if what in ("write", "truncate", "fsync", "fsync_folder"):
                    half()
                    raise OSError(errno.EIO, "input/output error")
                self.strike_at += 1  # renames and the like do not fail; the next operation will
                return
            if what != "fsync" and self.rng.random() < 0.5:  # who dies in an fsync has lost nothing that was not lost before
                half()
            self.dead = True
            raise Died

    def arm(self, strike, after):
        self.strike, self.strike_at = strike, self.steps + after

    def restart(self):
        """The machine, or the process, is back."""
        self.strike_at = None
        if self.strike == "cut" and self.dead:
            self.root.survive(self.rng)
        self.dead = False
        self._locks = {}

    def power_cut(self):
        self.root.survive(self.rng)
        self._locks = {}

    # --- names

    def _folder(self, path):
        node = self.root
        for part in path.parts[1:]:
            node = node.get(part)
            if not isinstance(node, Node):
                raise FileNotFoundError(path)
        return node

    def _at(self, path):
        try:
            return self._folder(path.parent).get(path.name) if path.name else self.root
        except FileNotFoundError:
            return None

    def open(self, path, *, create=False):
        found = self._at(path)
        if found is None:
            if not create:
                raise FileNotFoundError(path)
            self.step("create")
            found = Inode()
            found.links, found.modified_us = 1, self.clock.now_us()
            self._folder(path.parent).put(path.name, found)
        return ForgetfulFile(self, found)

    def make_folder(self, path):
        if self._at(path) is not None:
            raise FileExistsError(path)
        self.step("make_folder")
        self._folder(path.parent).put(path.name, Node())

    def rename(self, old, new):
        self.step("rename")
        found, there = self._at(old), self._at(new)
        if found is None:
            raise FileNotFoundError(old)
        if isinstance(there, Node) and any(v[-1] is not None for v in there.names.values()):
            raise OSError(errno.ENOTEMPTY, "not empty", str(new))
        if isinstance(there, Inode):
            there.links = 0
        self._folder(new.parent).put(new.name, found)
        self._folder(old.parent).put(old.name, None)

    def unlink(self, path):
        found = self._at(path)
        if found is not None:
            self.step("unlink")
            found.links = 0
            self._folder(path.parent).put(path.name, None)

    def remove_folder(self, path):
        if self._at(path) is not None:
            self.step("remove_folder")
            self._folder(path.parent).put(path.name, None)

    def names(self, folder):
        return sorted(name for name, versions in self._folder(folder).names.items() if versions[-1] is not None)

    def exists(self, path):
        return self._at(path) is not None

    def modified_us(self, path):
        return self._at(path).modified_us

    def fsync_folder(self, path):
        self.step("fsync_folder")
        node = self._folder(path)
        node.names = {name: versions[-1:] for name, versions in node.names.items() if versions[-1] is not None}

    @contextlib.contextmanager
    def lock(self, path):
        with self._locks.setdefault(str(path), threading.Lock()):
            self.open(path, create=True)
            yield

    # --- for tests that damage bytes

    def inode(self, path: Path) -> Inode:
        found = self._at(path)
        assert isinstance(found, Inode), path
        return found
