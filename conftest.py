"""Settings for all tests of this repository."""

from hypothesis import settings

# A busy machine must not fail a test: workers share the cores, so the time of one example says nothing.
settings.register_profile("no-deadline", settings(deadline=None))
settings.load_profile("no-deadline")
