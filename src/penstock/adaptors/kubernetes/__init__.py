# SPDX-License-Identifier: Apache-2.0
"""CPU shares of executors on Kubernetes, by in-place resize of their pods.

`executor_pods` reads what the API says about a pod. `api` asks the API, and turns its failures into clear sentences.
`shares` holds all executors of an application to a share, and puts them back. `nodes` says what nodes can still take.
The package `kubernetes` (``pip install penstock[kubernetes]``) is imported by `api` alone, when it is first needed.
"""
