# SPDX-License-Identifier: Apache-2.0
"""Child processes that end with Penstock, however Penstock ends: `children` asks, the `warden` process keeps."""
