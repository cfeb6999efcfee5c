# SPDX-License-Identifier: Apache-2.0
"""Asks a namespace of Kubernetes how many executors its quotas allow."""

from __future__ import annotations

from collections.abc import Callable

from penstock.adaptors.kubernetes.api import ApiExecutorPods, NotAllowedError
from penstock.adaptors.kubernetes.executor_pods import PodCpu
from penstock.errors import ActuationError, ConfigurationError, MetricSourceError
from penstock.records import ExecutorRoom


class NamespaceRoom:
    """Reads how many executors an application on Kubernetes can have at most.

    Parameters
    ----------
    pods
        The executors' pods.
    asked
        The CPU that Spark asks for in each.
    say
        Takes a line for the user, once, where the right to read quotas is missing. They are not read then.
    """

    def __init__(self, pods: ApiExecutorPods, asked: PodCpu, say: Callable[[str], object]) -> None:
        self._pods, self._asked, self._say = pods, asked, say
        self._may_read = True

    def __call__(self) -> ExecutorRoom | None:
        """Return it; None: nothing bounds them, or that cannot be known.

        Raises
        ------
        MetricSourceError
            The API does not answer, or with something that cannot be read.
        """
        if not self._may_read:
            return None
        try:
            return self._pods.quota_room(self._asked)
        except NotAllowedError as fault:
            self._may_read = False
            self._say(quotas_unknown(str(fault)))
            return None
        except (ActuationError, ConfigurationError) as fault:
            raise MetricSourceError(str(fault), target="kubernetes") from fault
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise MetricSourceError(
                f"the quotas of the namespace cannot be read: {type(fault).__name__}: {fault}", target="kubernetes"
            ) from fault


def quotas_unknown(reason: str) -> str:
    """Return the line for the user that plans know nothing of quotas."""
    return f"plans do not know what the namespace's quotas allow: {reason}"
