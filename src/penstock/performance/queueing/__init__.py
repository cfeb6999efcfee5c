# SPDX-License-Identifier: Apache-2.0
"""Queues and networks of queues; every solver answers with a `Response`."""
