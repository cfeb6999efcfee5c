# SPDX-License-Identifier: Apache-2.0
"""A pipeline from a file, run and scaled.

`pipeline_run` is the story of a run: `checks` finds what is wrong before anything starts, `assembly` builds the parts,
`supervision` looks after them, `results` adds up. Each `running_operator` has a process of its own: `operator_launcher`
starts it, and in it `operator_process` does an `operator_job`. `operator_actuator` changes its allocation.
`folder_streams` or `topic_streams` join the operators.
"""
