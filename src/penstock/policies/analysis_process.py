# SPDX-License-Identifier: Apache-2.0
"""The process that analyses are done in: an interpreter of its own, which never runs the user's script.

Processes of `multiprocessing` import the script that started them. A script that starts a streaming query without an
``if __name__ == "__main__"`` would start it twice. So the interpreter is started here, and is given a pipe alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

_NICE = 5
"""A third of the processor time that others get where there is none to spare."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from penstock.policies.analysis_process import serve; serve(int(sys.argv[1]))"
)


class AnalysisProcess:
    """Answers one question at a time in a process of low priority, which ends with this one: its pipe breaks.

    Parameters
    ----------
    analyse
        From a question to an answer: a function of a module, not of the script that is run.
    """

    def __init__(self, analyse: Callable[[Any], Any]) -> None:
        self._pipe, far = Pipe()
        # One thread for linear algebra: more would wait for each other on a busy machine.
        environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, "1")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(far.fileno()), json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            pass_fds=(far.fileno(),),
            env=environment,
        )
        far.close()  # so that the pipe breaks with the process
        self._analyse = analyse

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def answer(self, question: Any) -> Any:
        """Ask, and wait for the answer; what the analysis raised is raised here.

        Raises
        ------
        EOFError, OSError
            The process has ended.
        """
        self._pipe.send((self._analyse, question))
        answer = self._pipe.recv()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self) -> None:
        """End it; whoever waits for an answer gets an EOFError."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipe, when nobody waits for an answer any more."""
        self._pipe.close()


def serve(descriptor: int) -> None:
    """Answer questions until the pipe breaks: its other end is closed, or the process that held it is gone."""
    os.nice(_NICE)
    pipe = Connection(descriptor)
    while True:
        try:
            analyse, question = pipe.recv()
            pipe.send(analyse(question))
        except (EOFError, OSError, KeyboardInterrupt):
            return
        except Exception as fault:  # sent to the caller, who knows what to make of it
            pipe.send(fault)
