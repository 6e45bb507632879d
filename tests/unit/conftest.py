"""How hypothesis runs here: examples by the hundred, and none of them timed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# By the clock on the wall, 200 ms for an example and a second to make it: a machine that looks away for so long fails both.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
