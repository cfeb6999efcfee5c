# SPDX-License-Identifier: Apache-2.0
"""What a YARN cluster can give: asked of its ResourceManager (`resource_manager`), and worked out (`room`)."""
