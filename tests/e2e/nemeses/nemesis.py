# SPDX-License-Identifier: Apache-2.0
"""Does the faults of a plan to a run, one after the other, and writes down what it did and what it saw.

After each fault records must come out again before the next one is due. Cluster and broker are the user's, so this
plays the user who starts a lost worker or broker again, and who resumes a run whose controller died.
"""

from __future__ import annotations

import os
import signal
import time

from tests.e2e.nemeses.fault_plan import PlannedFault
from tests.e2e.nemeses.history import Fault, HistoryFile
from tests.e2e.nemeses.numbered_run import NumberedRun
from tests.e2e.nemeses.small_disk import filled, top_up
from tests.e2e.nemeses.targets import chosen, drivers_of, executors_of, held, name_of_driver, wait_for_end, warden_of

STOPPED_SECONDS = 8.0
"""Longer than the lease of an agent (5 s)."""
FULL_SECONDS = 10.0
CUT_SECONDS = 8.0
STEP_SECONDS = 3600.0
STEPPED_SECONDS = 10.0


class Nemesis:
    """Does faults to one run.

    Parameters
    ----------
    run
        Who suffers.
    history
        Where it is written down.
    has_small_disk
        Whether the run folder is on a disk of its own that may be filled.
    """

    def __init__(self, run: NumberedRun, history: HistoryFile, *, has_small_disk: bool) -> None:
        self._run, self._history = run, history
        self._has_small_disk = has_small_disk

    def do(self, planned: PlannedFault) -> Fault:
        """Do one fault when it is due, and wait until records come out again."""
        self._run.wait_for_rows(planned.after_records)
        began = time.time()
        if planned.kind == "disk full" and not self._has_small_disk:
            return self._note(planned, "run folder", began, "a small disk cannot be mounted here", is_done=False)
        target = self._harm(planned)
        if target is None:
            return self._note(planned, "nobody", began, "there was no such process", is_done=False)
        ended, before = time.time(), self._run.rows()
        seconds = self._run.wait_for(f"records after {planned.kind}", lambda: self._run.rows() > before)
        return self._note(planned, target, began, f"records came out again after {seconds:.1f} s", ended=ended)

    def _note(
        self, planned: PlannedFault, target: str, began: float, seen: str, *, ended: float | None = None,
        is_done: bool = True,
    ) -> Fault:  # fmt: skip
        fault = Fault(planned.number, planned.kind, target, began, ended or time.time(), seen, is_done)
        self._history.add(fault)
        print(f"{fault}: {seen}", flush=True)
        return fault

    def _harm(self, planned: PlannedFault) -> str | None:
        """Do it, and repair what is the user's to repair; gives what was harmed."""
        if planned.kind == "disk full":
            return self._fill_disk()
        if planned.kind == "clock stepped":
            return self._step_clock(STEP_SECONDS if planned.draw < 0.5 else -STEP_SECONDS)
        if planned.kind == "network cut":
            with self._run.around.network.cut():
                time.sleep(CUT_SECONDS)
            return "all connections to the broker"
        who, _, how = planned.kind.rpartition(" ")
        found = self._find(who, planned.draw)
        if found is None:
            return None
        pid, name = found
        if how == "stopped":
            with held(pid):
                time.sleep(STOPPED_SECONDS)
        else:
            os.kill(pid, signal.SIGKILL)
            self._repair(who, pid)
        return f"{name}, process {pid}"

    def _find(self, who: str, draw: float) -> tuple[int, str] | None:
        around, controller = self._run.around, self._run.live.process.pid
        if who in ("broker", "controller"):
            return (around.broker.pid if who == "broker" else controller), who
        if who == "worker":
            workers = around.cluster.worker_pids
            return workers[int(draw * len(workers))], who
        candidates = {
            "executor": lambda: executors_of(around.cluster.folder),
            "driver": lambda: drivers_of(self._run.folder),
            "warden": lambda: warden_of(controller),
        }[who]()
        process = chosen(candidates, draw)
        if process is None:
            return None
        return process.pid, name_of_driver(process) if who == "driver" else who

    def _repair(self, who: str, pid: int) -> None:
        run, around = self._run, self._run.around
        if who == "worker":
            run.wait_for("the worker's end is known", lambda: bool(around.cluster.replace_lost_workers()))
        elif who == "broker":
            run.wait_for("the broker's end is known", lambda: not around.broker.is_running)
            around.broker.stop()
            around.broker.start()
        elif who == "controller":
            run.live.process.wait()
            run.resume()
        elif who == "warden":
            # The producer dies with it, and nothing else: operators outlive their controller. The run says that the
            # producer has ended. Who wants the rest of the load to be sent ends the controller and resumes.
            wait_for_end(pid)
            run.kill_controller()
            run.resume()

    def _fill_disk(self) -> str:
        until = time.monotonic() + FULL_SECONDS
        with filled(self._run.folder) as ballast:
            while time.monotonic() < until:
                time.sleep(1.0)
                taken = top_up(ballast)
        return f"run folder, {taken >> 20} MiB taken"

    def _step_clock(self, seconds: float) -> str:
        self._run.set_clock(seconds)
        time.sleep(STEPPED_SECONDS)
        self._run.set_clock(0.0)
        return f"the controller's wall clock by {seconds:+.0f} s, and back"
