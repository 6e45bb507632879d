"""Mechanism: one kernel idea a module. No policy, no logging, no retry.

From the bottom up, each importing only what stands above it in this list:

- `_native`, `observation`, `vantage`, `facilities`, `exit_info`: the compiled core, and values that all share
- `durable`: private folders, their lock, and files that are true after a crash
- `process`: one process, held and named for good
- `cgroup`: one cgroup v2 folder
- `tree`: all processes of a job
- `spawn`: start a program
- `recorded`: runs that outlive their launcher
- `command`: a command from beginning to proven end
"""
