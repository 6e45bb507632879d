"""`spurproc-inspect doctor`: what this host allows, what is lost without the rest, and the limits that will be met.

Everything is read or tried without a trace: no file, no cgroup and no setting is made or changed.
"""
