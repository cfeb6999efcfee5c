# SPDX-License-Identifier: Apache-2.0
"""The long-run dispersion of departures that are made of runs of services and idle times, without building them.

==========  ==========================================================================================
Symbol      Meaning
==========  ==========================================================================================
s, f        phase in which a run starts, and how often it does: f F = f
F           from the start of a run to that of the next
lam         departures per unit of time
X           records of a stretch of time minus lam times its length: zero in the mean over a cycle
R           X of a run: its services follow each other independently, and each may be the last
j1, j2      first two moments of the idle time after a run
I           dispersion: variance of X over a cycle and all later ones, by the mean number of records
==========  ==========================================================================================

A cycle is a run and the idle time after it. Given where a run starts, it is independent of what comes after. So cycles
form a Markov renewal process, and I is what its central limit theorem gives (Asmussen, "Applied Probability and
Queues", 2003, Ch. VI.3 and VII.1): E[X^2] + 2 E[X g(next)], with g = r + F g and r the mean of X from each start. How
variable the numbers of services are changes E[R^2] alone. All else is the same however a run is divided into kinds.
"""

from __future__ import annotations

import numpy as np

from penstock.markov import PH
from penstock.markov.conditions import FloatArray, IntArray
from penstock.markov.ctmc import eliminate


class DepartureDispersion:
    """Gives I for runs divided into kinds in any way that keeps their mean numbers of services.

    Parameters
    ----------
    M
        Expected time in each idle phase, (-idle)^-1.
    entries
        Rates from the idle phases, one column for each start.
    after
        Idle phase after a run, one row for each start.
    mean_services
        Of a run from each start.
    service
        The service time.

    Attributes
    ----------
    frequency
        f: which part of all runs begins at each start.
    """

    def __init__(
        self, M: FloatArray, entries: FloatArray, after: FloatArray, mean_services: FloatArray, service: PH
    ) -> None:
        # Moments of a service that ends in each phase: alpha M^(k+1) k! t.
        stay = service.alpha @ service.M
        self._ended = np.array([stay, stay @ service.M, 2.0 * (stay @ service.M @ service.M)]) * service.exits
        idle = after @ M
        F = idle @ entries
        j1, j2 = idle.sum(axis=1), 2.0 * (idle @ M).sum(axis=1)
        self.frequency = f = eliminate(F)
        self._services = float(f @ mean_services)
        self._lam = lam = self._services / float(f @ j1 + service.mean * self._services)
        run = (1.0 - lam * service.mean) * mean_services  # Wald
        r = run - lam * j1
        g = np.linalg.solve(np.eye(len(F)) - F + f, r)
        later = (f * run) @ F - lam * (f @ (idle @ M @ entries))
        self._rest = float(f @ (lam * lam * j2 - 2.0 * lam * j1 * run) + 2.0 * (later @ g))

    def of(self, starts: IntArray, chances: FloatArray, ends: FloatArray) -> float:
        """Give I.

        Parameters
        ----------
        starts, chances
            Where runs of each kind start, as a place in the columns of `entries`, and how many of those are of it.
        ends
            Chance that a service that ends in a phase is the last, one row for each kind.
        """
        lam = self._lam
        last, last_time, _ = moments = self._ended @ ends.T
        whole = self._ended.sum(axis=1)
        mean = (whole[0] - lam * whole[1]) / last
        goes_on = (whole[0] - last) - lam * (whole[1] - last_time)
        square = whole[0] - 2.0 * lam * whole[1] + lam * lam * whole[2]
        # R = X of the first service, and if that is not the last another R after it.
        squares = (square + 2.0 * goes_on * mean) / moments[0]
        return (self._rest + float(self.frequency[starts] @ (chances * squares))) / self._services
