# SPDX-License-Identifier: Apache-2.0
"""Apache Spark: the cluster, its running queries and their executors."""
