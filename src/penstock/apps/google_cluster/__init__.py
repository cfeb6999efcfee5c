# SPDX-License-Identifier: Apache-2.0
"""The state of a Google cluster from its task events, the query of Rouaux's thesis on dynamic scaling (Sec. 5.3).

::

    task events -> machines    tasks that run on each machine, and the CPU, memory and disk that they ask for
                -> cluster     totals, and mean, median, 75th, 90th and 95th percentile over the machines

`google_cluster` runs it as one query. As two operators, `machines` and `cluster` are Spark applications of their own.
The state of `machines` is divided by machine, so it scales out. The state of `cluster` is one: it runs in one task.

The rows of the public trace (Google clusterdata-2011-2, table task_events) come from the replay source: its option
``format=google-task-events`` gives every row the time at which it happened, ``payload=file:PATH`` gives its text.

What counts
-----------
- A task is (job, task index). The last of its events on a machine decides, in the order of time, and of place in the
  file among equal times: after SCHEDULE and UPDATE_RUNNING it runs there and asks for what that event says; after
  EVICT, FAIL, FINISH, KILL and LOST it does not.
- All other events change nothing: SUBMIT, UPDATE_PENDING, and whatever has no machine. So `machines` drops them before
  anything is sent over the network or kept (semantic load shedding), and counts them.
- A request that the trace does not give counts as 0; the task counts as running.
- Requests are added up as whole multiples of 1e-12, so no sum depends on the order of its parts.
- A result at trace time T covers the events before T. Trace time starts 600 s into the file's times; what is
  stamped 0 happened before. Machines are those that had an event of a running task before T, also if nothing runs there
  any more.
- Percentiles are interpolated between the two machines next to them (rank 1 + p (n - 1)), as pandas does.

`check.expected_results` computes the same from the file with pandas, in another way.
"""

from penstock.apps.google_cluster.operators import cluster, google_cluster, machines
from penstock.apps.google_cluster.options import check_options
from penstock.apps.google_cluster.results import ClusterResults, read_results

__all__ = ["ClusterResults", "check_options", "cluster", "google_cluster", "machines", "read_results"]
