# SPDX-License-Identifier: Apache-2.0
"""Watch and steer pipelines over HTTP. It loads a web framework, so nothing but the commands imports it."""
