"""`make bench`: every command of docs/speed.md runs, and what is left out or ended is said."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import rival_sets  # noqa: E402
import rivals  # noqa: E402
from rivals import Measured  # noqa: E402

SECTIONS = pytest.mark.parametrize("section", rival_sets.SECTIONS, ids=lambda each: each.title)


def rows_of(lines):
    return [[cell.strip() for cell in x.strip("|").split("|")] for x in lines if x[:1] == "|"]


@SECTIONS
def test_a_section_has_a_row_for_each_set_that_is_there(tmp_path, monkeypatch, section):
    name = next(name for name in section.sets if name not in rival_sets.SCALED)
    (tmp_path / name).write_text("1 1:1\n")
    commands = []
    monkeypatch.setattr(rivals, "run", lambda command: commands.append(command) or (2.0, 50.0))
    monkeypatch.setattr(rivals.shutil, "which", lambda name: name)
    monkeypatch.setattr(rivals, "find_spec", lambda name: name)
    sets = {name: section.sets[name], "not there": ""}
    lines = list(rivals.section_lines(section._replace(sets=sets), str(tmp_path), tmp_path))
    columns = [*section.ours, *section.peers]
    tables = [row for row in rows_of(lines) if row[0] != "---"]
    assert tables[0] == ["set", *columns] and tables[-2] == tables[0]
    assert tables[1][0].startswith(name) and tables[1][1:] == ["2.000 ± 0%"] * len(columns)
    assert tables[-1][1:] == ["50"] * len(columns)
    if section.peers:
        assert tables[2][1] == f"{columns[0]} / {next(iter(section.peers))}"
        assert tables[3][1:] == ["1.00"] * (len(section.ours) * len(section.peers))
    assert len(tables) == (6 if section.peers else 4)
    assert all(str(tmp_path / name) in command for command in commands)


@SECTIONS
def test_our_commands_are_understood(run, heart, section, monkeypatch):
    monkeypatch.setattr(rivals.shutil, "which", lambda name: name)
    for words in section.ours.values():
        name, *options = rivals.filled(words, heart, 270, "1/13")
        assert name == "odm-train" and run(name.removeprefix("odm-"), *options).code == 0


@SECTIONS
def test_commands_of_peers_are_left_out_where_these_are_not_installed(section, monkeypatch):
    monkeypatch.setattr(rivals.shutil, "which", lambda name: None)
    monkeypatch.setattr(rivals, "find_spec", lambda name: None)
    assert not any(rivals.filled(c, Path("file"), 3, "1/4") for c in section.peers.values())
    monkeypatch.setattr(rivals.shutil, "which", lambda name: name)
    for words in section.peers.values():
        found = rivals.filled(words, Path("a file"), 3, "1/4")
        assert found is None or "a file" in found and not any("{" in word for word in found)


def test_a_slow_command_is_run_fewer_times_and_ended_at_the_limit(monkeypatch):
    monkeypatch.setattr(rivals, "LIMIT", 1.0)
    wait = [sys.executable, "-c", "import time; time.sleep(60)"]
    seconds, _ = rivals.run(wait)
    assert 1 <= seconds < 30
    with pytest.raises(SystemExit, match="failed"):
        rivals.run([sys.executable, "-c", "raise SystemExit(1)"])
    runs = []
    monkeypatch.setattr(rivals, "run", lambda command: runs.append(command) or (command, 5.0))
    found = rivals.in_turn({"fast": 1.0, "slow": 4.0, "slower": 12.0})
    assert [len(found[name].seconds) for name in found] == [5, 2, 1]
    assert runs == [1, 4, 12] + [1, 4] * 2 + [1] * 3
    runs.clear()
    assert len(rivals.in_turn({"peer": 12.0, "compiled": 12.0}, {"compiled"})["peer"].seconds) == 1
    assert runs == [12, 12, 12]


def test_cells():
    assert str(Measured([0.2, 0.25, 0.21], 9)) == "0.210 ± 12%"
    assert str(Measured([12.345], 9)) == "12.3" and str(Measured([123.4], 9)) == "> 120"
    ours, ended = Measured([2.0], 9), Measured([123.4], 9)
    assert rivals.ratio(ours, Measured([4.0], 9)) == "0.50"
    assert rivals.ratio(ours, ended) == "< 0.02" and rivals.ratio(ended, ours) == "> 61.70"
    assert rivals.ratio(ended, ended) == ""


def test_sets_are_unpacked_and_scaled(tmp_path, monkeypatch):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    data, folder = tmp_path / "data", tmp_path / "made"
    data.mkdir(), folder.mkdir()
    (data / "shuttle").write_text("1 1:5 2:1\n2 1:10 2:3\n")
    made = rival_sets.data_file("shuttle", data, folder)
    assert made.name == "shuttle, scaled" and made.read_text() == "1 \n2 1:1 2:1 \n"
    assert rival_sets.data_file("shuttle", data, folder) == made
    assert rival_sets.data_file(rival_sets.COVTYPE_PART, data, folder) is None


def test_text_is_sparse_rows_of_length_1(tmp_path):
    rival_sets.write_text(tmp_path / "text", m=40, d=500, each=20)
    for line in (tmp_path / "text").read_text().splitlines():
        label, *pairs = line.split()
        columns, values = zip(*(pair.split(":") for pair in pairs), strict=True)
        assert label in ("1", "-1") and sorted(set(map(int, columns))) == list(map(int, columns))
        assert sum(float(value) ** 2 for value in values) == pytest.approx(1, abs=1e-4)
        assert {int(column) for column in columns} <= set(range(1, 501))
