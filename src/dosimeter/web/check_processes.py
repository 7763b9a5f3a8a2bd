"""Run checks of queries in processes of their own, so that a check that grows can be ended for good.

A thread cannot be ended, a process can. The system itself ends a process that takes too much time or memory for one
check; nobody has to watch it, and it ends even if this server is gone. A process that ended is replaced when the next
check needs it. Takes bytes and gives bytes; knows neither queries nor pages.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO

from dosimeter.errors import DosimeterError
from dosimeter.web.log import LOG, describe_bug

MOST_PROCESSES = 4
MOST_TRIES = 3  # processes that a check is given to, if each ended before it took the check
PROGRAM = "from dosimeter.web.checks import answer_requests; answer_requests()"
STOPPING = "The server is stopping."
_BEGUN, _DONE, _FAILED = b"b", b"d", b"f"  # what a process says: the request arrived, its result, a bug
_SIZE = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """What one check may take: seconds of processor time, seconds in all, and bytes of memory.

    Processor time ends what computes without end, and does not run out while others keep the machine busy. The memory
    is limited where the system tells how much a process has (Linux); elsewhere time alone ends what grows.
    """

    processor: float = 5.0
    seconds: float = 30.0
    memory: float = 2.0**30


class NotBegun(Exception):
    """The error that a process ended before it took a request. Another process can be asked."""


class PendingCheck:
    """A check that waits, runs or is done. ``result``: its reply; None if it was stopped, or ended by a limit."""

    def __init__(self) -> None:
        self.result: Future[bytes | None]
        self.stopped = False
        self._guard = threading.Lock()
        self._process: CheckProcess | None = None

    def stop(self) -> None:
        """End the check, with the process that it runs in. A check that waits does not begin."""
        with self._guard:
            self.stopped = True
            if self._process is not None:
                self._process.kill()

    def wait(self) -> bytes | None:
        """Wait until the check is done and return its result. Raises DosimeterError if it failed."""
        try:
            return self.result.result()
        except CancelledError:
            raise DosimeterError(STOPPING) from None

    def run_in(self, process: CheckProcess, planner: bytes, request: bytes) -> bytes | None:
        """Run the check in this process; return its reply, or None if the process ended first. Raises NotBegun."""
        with self._guard:
            if self.stopped:
                raise NotBegun
            self._process = process
        try:
            return process.ask(planner, request)
        finally:
            with self._guard:  # the process may be given to another check, which this one must not end
                self._process = None


class CheckProcess:
    """One process that answers requests, one after the other. Used by one thread, and ended by any."""

    def __init__(self, program: str, limits: CheckLimits) -> None:
        # It finds the packages that this process finds, and is no part of its terminal: Ctrl-C is for the server.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", program, *(str(limit) for limit in astuple(limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )

    def ask(self, planner: bytes, request: bytes) -> bytes | None:
        """Send a request and return the reply; None if the process ended before its reply. Raises NotBegun."""
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        try:
            _write_part(to, planner)
            _write_part(to, request)
            to.flush()
        except OSError:
            raise NotBegun from None
        if back.read(1) != _BEGUN:
            raise NotBegun
        said, reply = back.read(1), _read_part(back)
        if said == _FAILED and reply is not None:
            LOG.error("Checking a query failed: %s", reply.decode())
            raise DosimeterError("A query could not be checked.")
        return reply

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End the process and free what belonged to it. For the thread that uses it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):  # what was not sent yet finds nobody
                stream.close()


class CheckProcesses:
    """Up to ``most`` processes, each begun when a check needs it and none is idle. Used by any thread.

    ``limits``: of each check. ``program``: what the processes run; it calls ``answer_each``.
    """

    def __init__(
        self, most: int = MOST_PROCESSES, *, limits: CheckLimits | None = None, program: str = PROGRAM
    ) -> None:
        self._threads = ThreadPoolExecutor(max_workers=most, thread_name_prefix="check")
        self._limits = limits or CheckLimits()
        self._program = program
        self._guard = threading.Lock()
        self._idle: list[CheckProcess] = []  # the one used last is used first
        self._busy: set[CheckProcess] = set()
        self._closed = False

    def begin(self, planner: bytes, request: bytes) -> PendingCheck:
        """Begin a check, or let it wait until a process is free. Raises DosimeterError if the server is stopping."""
        pending = PendingCheck()
        try:
            pending.result = self._threads.submit(self._run, pending, planner, request)
        except RuntimeError:  # closed
            raise DosimeterError(STOPPING) from None
        return pending

    def warm(self) -> None:
        """Begin the first process, so that the first check need not wait for it."""
        self._give_back(self._take())

    def _run(self, pending: PendingCheck, planner: bytes, request: bytes) -> bytes | None:
        for _ in range(MOST_TRIES):
            if pending.stopped:
                return None
            process, reply = self._take(), None
            try:
                reply = pending.run_in(process, planner, request)
            except NotBegun:
                continue
            finally:
                self._give_back(process, whole=reply is not None)
            if reply is None and self._closed:
                break
            return reply
        if self._closed:
            raise DosimeterError(STOPPING)
        raise DosimeterError("No process that checks queries could be started.")

    def _take(self) -> CheckProcess:
        """Return an idle process, or a new one. Raises DosimeterError if the server is stopping."""
        with self._guard:
            if self._closed:
                raise DosimeterError(STOPPING)
            process = self._idle.pop() if self._idle else CheckProcess(self._program, self._limits)
            self._busy.add(process)
            return process

    def _give_back(self, process: CheckProcess, *, whole: bool = True) -> None:
        """Keep a process for the next check; end it if the check did not end well (``whole`` is False)."""
        with self._guard:
            self._busy.discard(process)
            keep = whole and not self._closed
            if keep:
                self._idle.append(process)
        if not keep:
            process.close()

    def close(self) -> None:
        """End every process at once, whatever it does. Checks that wait do not begin."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
            for process in self._busy:
                process.kill()
        self._threads.shutdown(cancel_futures=True)  # soon: what the threads wait for has ended
        for process in idle:
            process.close()


# ---------------------------------------------------------------- in the process


def answer_each(answer: Callable[[bytes, bytes], bytes]) -> None:
    """Answer requests until there are no more, each within the limits. For the program of a process.

    ``answer``: takes a planner and a request, and gives the reply.
    """
    processor, seconds, memory = (float(limit) for limit in sys.argv[1:])
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no reply
    _limit_memory(int(memory))
    while (planner := _read_part(requests)) is not None and (request := _read_part(requests)) is not None:
        replies.write(_BEGUN)
        replies.flush()
        signal.setitimer(signal.ITIMER_PROF, processor)  # nobody handles these signals, so they end the process
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            said, reply = _DONE, answer(planner, request)
        except MemoryError:
            os._exit(1)
        except Exception as error:  # noqa: BLE001 - a bug, which the server logs
            said, reply = _FAILED, describe_bug(error).encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(said)
        _write_part(replies, reply)
        replies.flush()


def _limit_memory(more: int) -> None:
    """Let this process have so many bytes more than it has now, where the system tells how many these are."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _write_part(stream: IO[bytes], part: bytes) -> None:
    stream.write(_SIZE.pack(len(part)) + part)


def _read_part(stream: IO[bytes]) -> bytes | None:
    """Return what was written as one part; None if the other side has ended."""
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    part = stream.read(size)
    return part if len(part) == size else None
