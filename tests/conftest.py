"""For all tests: how property tests run.

They are untimed, since how fast a machine is says nothing about what is right. By default they try the
same cases every time, so that a change is judged by what it changes; `--hypothesis-profile=random` tries
others.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "random", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
settings.register_profile("same", settings.get_profile("random"), derandomize=True)
settings.load_profile("same")
