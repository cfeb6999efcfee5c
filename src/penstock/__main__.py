# SPDX-License-Identifier: Apache-2.0
"""`python -m penstock` is the command `penstock`."""

from penstock.cli import main

if __name__ == "__main__":
    main()
