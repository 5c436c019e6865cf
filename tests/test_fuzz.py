"""Some thousand changed files and options; ``make soak`` goes on for half an hour."""

import pytest
from fuzz.targets import TARGETS, Attack

# Journals are synced, options train.
COUNTS = dict.fromkeys(TARGETS, 1500) | {"journal": 300, "options": 200}


@pytest.mark.parametrize("target", TARGETS)
def test_changed_inputs(target, tmp_path):
    attack = Attack(1, tmp_path)
    for _ in range(COUNTS[target]):
        getattr(attack, target)()
