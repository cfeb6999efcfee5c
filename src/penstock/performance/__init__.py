# SPDX-License-Identifier: Apache-2.0
"""What an allocation would do: latency of queues, batches and pipelines for a workload."""
