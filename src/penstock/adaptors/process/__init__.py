# SPDX-License-Identifier: Apache-2.0
"""Child processes that end with Penstock, however it ends. `children` sends requests to the `warden` process."""
