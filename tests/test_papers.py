"""The declarations of the papers' tables (benchmarks/papers) fit what the papers print."""

import csv
import io
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "papers"))

import declared  # noqa: E402
import prepare  # noqa: E402
import report  # noqa: E402
import results as done  # noqa: E402
import run as runner  # noqa: E402

from odmtool.io.svmlight import read_svmlight  # noqa: E402

TABLES = declared.tables()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_is_run_or_left_out_with_a_reason(table):
    columns = {machine for _, machine in declared.printed(table)}
    assert columns == table.machines.keys() | table.left_out.keys()
    assert not table.machines.keys() & table.left_out.keys() and table.ours in table.machines
    assert declared.sets_of(table)[0]


def test_every_name_of_a_set_is_printed_somewhere():
    with open(declared.HERE / "printed.csv", newline="") as stream:
        printed = {row["dataset"].lower() for row in csv.DictReader(stream)}
    assert {name for s in declared.data_sets() for name in s.names} <= printed


def test_settings_are_as_many_as_the_papers_say():
    counts = {
        (table.name, machine): declared.run_of(table, None, machine, table.protocols[0]).settings
        for table in TABLES for machine in table.machines
    }  # fmt: skip
    assert counts["tkde2019-2", "ODM"] == 176 and counts["tkde2019-3", "ODM"] == 880
    assert counts["tkde2019-2", "ODM^L"] == 275 and counts["tkde2019-3", "ODM^L"] == 1375
    assert counts["m3svm2024-1", "M3SVM"] == 80


def test_a_run_is_done_interrupted_and_reported(tmp_path, monkeypatch, capsys):
    rows = "".join(f"{1 + i % 3} 1:{i % 3 + i / 60} 2:{-i}\n" for i in range(40))
    (tmp_path / "iris").write_text(rows)
    results = tmp_path / "results"
    command = ["run.py", "--jobs", "1", "--minutes", "0", "--only", "iris.l1svm*", str(results)]
    monkeypatch.setattr(sys, "argv", [*command, str(tmp_path)])
    table = next(table for table in TABLES if table.name == "tkde2019-5b")
    quick = table._replace(machines={m: f"-s l1svm --multiclass {m[:3]} -l 1" for m in
                                     ("ovrSVM", "ovoSVM")}, ours="ovrSVM",
                           protocols=[declared.Protocol(2, 0.2, 2)])  # fmt: skip
    for module in (runner, report):
        monkeypatch.setattr(module, "tables", lambda: [quick])
    monkeypatch.setattr(done, "KEPT", tmp_path / "results.csv")
    runner.main()
    assert "2 of 2 runs are done" in capsys.readouterr().out
    X = read_svmlight(str(results / "sets" / "iris")).X.toarray()
    assert X.min() == 0 and X.max() == 1
    (run, _) = declared.runs([quick])[:2]
    assert done.found(results, run).count == 2
    # A torn line counts as nothing.
    journal = next(results.glob(f"runs/{run.name}.journal"))
    journal.write_text(journal.read_text()[:-15])
    kept = done.found(results, run)
    assert kept.count == 2  # as results.csv keeps it
    monkeypatch.setattr(done, "KEPT", tmp_path / "none.csv")
    torn = done.found(results, run)
    assert torn.count == 1 and torn.scores[1] == pytest.approx(kept.scores[1], abs=1e-4)
    monkeypatch.setattr(sys, "argv", ["report.py", str(results), str(tmp_path)])
    report.main()
    page = capsys.readouterr().out
    assert "| iris | " in page and "1 to 2 |" in page and "aloi" in page


def test_results_are_kept_where_they_are_news(tmp_path, monkeypatch):
    monkeypatch.setattr(done, "KEPT", tmp_path / "results.csv")
    table = TABLES[0]
    run = declared.run_of(table, declared.data_sets()[0], table.ours, table.protocols[0])
    (tmp_path / "runs").mkdir()
    journal = Path(f"{done.folder(tmp_path, run)}.journal")

    def splits(*correct):
        rows = [f"[{n}, 0, 0.5, 0.5, {c}, 12, 1.0, 0] sum" for n, c in enumerate(correct, 1)]
        journal.write_text("\n".join(["header", *rows, ""]))
        done.keep(tmp_path, [run])
        return done.found(tmp_path / "nothing here", run).scores

    assert splits(6, 4) == {1: 50.0, 2: 33.3333}
    assert splits(3) == {1: 50.0, 2: 33.3333}
    assert splits(3, 6, 9) == {1: 25.0, 2: 50.0, 3: 75.0}
    assert done.KEPT.read_text().count("\n") == 2


def test_classes_and_widths(tmp_path):
    (tmp_path / "vehicle").write_text("1 1:5\n2 1:0\n3 1:3\n+2 1:4\n")
    vehicle = next(s for s in declared.data_sets() if s.name == "vehicle-two")
    run = declared.Run(vehicle, "-s odm -l 1", "rbf", (), declared.Protocol(1, 0.5), False)
    path = prepare.prepared(run, [tmp_path], tmp_path / "results")
    assert path.read_text() == "+1 1:0\n-1 1:3\n+1 1:4\n"
    known = prepare.shape(path)
    assert known.distance == pytest.approx((3 + 4 + 1) / 3)
    assert prepare.gammas(("dimension", (0, 2)), known) == [1, 4]
    assert prepare.gammas(("distance", (1,)), known) == [pytest.approx((6 / 16) ** 2 / 4 * 4 / 4)]


def test_codes_and_levels(tmp_path):
    (tmp_path / "x").write_text("+1 1:1 2:-1\n-1 2:2 3:.5\n-1\n")
    new = {"codes": ({"0": 1, "-1": 2}, [], "+1 1:1 2:2 3:1\n-1 1:1 2:2 3:0.5\n-1 1:1 2:1 3:1\n"),
           "levels": ({}, [2], "+1 1:1 2:1 3:0 4:0 5:0\n-1 1:0 2:0 3:0 4:1 5:0.5\n"
                                  "-1 1:0 2:0 3:1 4:0 5:0\n")}  # fmt: skip
    for name, (codes, levels, text) in new.items():
        dataset = declared.DataSet(name, [], ["x"], codes=codes, levels=levels)
        run = declared.Run(dataset, "-s odm", "linear", (), declared.Protocol(1, 0.5), False)
        assert prepare.prepared(run, [tmp_path], tmp_path / "results").read_text() == text


def test_a_cell_agrees_by_errors_or_by_the_printed_deviation():
    table = TABLES[0]
    protocol = declared.Protocol(25, 0.5)

    def pair(ours, theirs, std):
        found = done.Found({k: ours + (-1) ** k for k in range(16)}, 0.0)
        return report.Pair(table, protocol, "x", "SVM", found, declared.Cell(theirs, std, ""))

    assert pair(80, 80.5, 1.0).agrees and pair(80, 81.0, 1.0).agrees
    assert not pair(80, 81.2, 1.0).agrees and str(pair(80, 81.2, 1.0)) == "**80.0** / 81.2"
    assert pair(80, 80.5, None).agrees and not pair(80, 80.6, None).agrees


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_is_written_and_counted(table):
    (name, _), cell = next(iter(declared.printed(table).items()))
    for protocol in table.protocols:
        found = done.Found({0: cell.value, 1: cell.value}, 1.0)
        pair = report.Pair(table, protocol, name, table.ours, found, cell)
        out = io.StringIO()
        report.write_table(table, protocol, {(name, table.ours): pair}, out)
        report.write_summary([pair, pair._replace(machine="SVM")], out)
        assert f"* {table.ours}: 1 of 1 cells agree (100 %)." in out.getvalue()
        assert "| all |  |  | 1 of 1 (100 %) | 0 | 0 | +0.0 |" in out.getvalue()
        is_small = table.name in report.SMALL and protocol == table.protocols[0]
        share = "1 of 1 (100 %)" if is_small else "0 of 0 (0 %)"
        assert f"| the same, with test parts as printed |  |  | {share} |" in out.getvalue()
