"""Files that version 0.1 wrote, read for ever: models, ranges, journals."""

import json
import shutil
from pathlib import Path

import pytest

from odmtool.search.journal import open_journal

KEPT = Path(__file__).parent / "data" / "kept"


@pytest.mark.parametrize("model", sorted(path.stem for path in KEPT.glob("*.model")))
def test_kept_models_decide_as_they_did(run, tmp_path, model):
    outcome = run("scale", "-r", KEPT / "iris.range", "-o", "scaled", KEPT / "iris.test")
    assert outcome.code == 0 and outcome.err == ""
    test = KEPT / "iris.test" if model == "ranges" else "scaled"
    assert run("predict", "-d", test, KEPT / f"{model}.model", "out").code == 0
    expected = (KEPT / f"{model}.out").read_text().splitlines()
    found = (tmp_path / "out").read_text().splitlines()
    assert found[0] == expected[0] and len(found) == len(expected)
    for one, other in zip(found[1:], expected[1:], strict=True):
        (label, *values), (known, *others) = one.split(), other.split()
        assert label == known and [*map(float, values)] == pytest.approx([*map(float, others)])


def test_kept_ranges_scale_as_they_did(run, tmp_path):
    run("scale", "-r", KEPT / "iris.range", "-o", "scaled", KEPT / "iris.test")
    assert (tmp_path / "scaled").read_text() == (KEPT / "scaled").read_text()


def test_kept_journals_are_gone_on_with(tmp_path):
    path = tmp_path / "journal"
    shutil.copy(KEPT / "search.journal", path)
    first, *lines = path.read_bytes().splitlines()
    search = {key: value for key, value in json.loads(first).items() if key != "odmtool-journal"}
    found = open_journal(str(path), search)
    assert [(fit.setting, fit.fold) for fit in found] == [
        tuple(json.loads(line.rpartition(b" ")[0])[:2]) for line in lines
    ]
    assert len(found) == 6
