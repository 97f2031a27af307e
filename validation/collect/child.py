"""Another program's answer, from a process group that nobody waits for once its time is up.

A driver that hangs takes whoever asks it along: such a process cannot be ended, and is left behind.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

GIVE_UP_S = 1


def answer(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """What a command said.

    Raises TimeoutExpired when time is up, with all that it started killed, and OSError where it cannot start.
    """
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=timeout_s)
    except BaseException:
        _give_up(child)
        raise
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def _give_up(child: subprocess.Popen[str]) -> None:
    """Kills the child's group, but does not wait for one that is stuck in the driver."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(timeout=GIVE_UP_S)
