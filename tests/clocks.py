"""A clock that a test moves."""


class Clock:
    """Stands for the module ``time``."""

    def __init__(self, now: float):
        self.now = now

    def monotonic(self) -> float:
        return self.now


def moved_by_hand(module, monkeypatch, now: float = 0.0) -> Clock:
    """The clock that a module looks at from now on."""
    clock = Clock(now)
    monkeypatch.setattr(module, "time", clock)
    return clock
