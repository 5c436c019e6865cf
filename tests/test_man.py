"""The man pages: up to date, complete, and well formed."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

MAN = Path(__file__).parent.parent / "man"


def load_generator():
    spec = importlib.util.spec_from_file_location("make_man", MAN / "make_man.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_man = load_generator()
TEXTS = make_man.render()


def plain(roff: str) -> str:
    """The words of a page, without fonts and escapes."""
    return re.sub(r"\\f[BIR]", "", roff).replace(r"\-", "-").replace(r"\(ha", "^")


def test_pages_are_those_named():
    assert sorted(TEXTS) == sorted(make_man.PAGES) == sorted(p.name for p in MAN.glob("*.[157]"))


@pytest.mark.parametrize("page", make_man.PAGES)
def test_page_is_up_to_date(page):
    assert (MAN / page).read_text(encoding="utf-8") == TEXTS[page], "run: make man"


@pytest.mark.parametrize("name", make_man.COMMANDS)
def test_every_option_is_in_the_page(name):
    command = getattr(importlib.import_module(f"odmtool.cli.{name}"), name)
    page = plain(TEXTS[f"{make_man.COMMANDS[name]}.1"])
    entries = re.findall(r"^\.TP\n(.*)\n(.*)", page, re.MULTILINE)
    described = {word for names, _ in entries for word in re.findall(r"(?<!\S)-[^\s,]+", names)}
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    assert len(options) >= 5
    for option in options:
        assert {*option.opts, *option.secondary_opts} <= described
        assert option.help, option.name
    assert {"-h", "--help"} <= described


@pytest.mark.parametrize("name", make_man.COMMANDS)
def test_every_command_has_the_sections(name):
    sections = re.findall(r'^\.SH "(.*)"', TEXTS[f"{make_man.COMMANDS[name]}.1"], re.MULTILINE)
    assert sections[:4] == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"]
    assert sections[-1] == "SEE ALSO" and {"EXAMPLES", "EXIT STATUS"} <= set(sections)
    assert len(set(sections)) == len(sections)


def test_every_exit_code_is_in_every_page():
    from odmtool import errors

    source = (Path(errors.__file__)).read_text(encoding="utf-8")
    codes = re.findall(r"^(\d+)  +\S", source, re.MULTILINE)
    assert len(codes) >= 8
    common = (MAN / "common.in").read_text(encoding="utf-8")
    assert re.findall(r"^- `(\d+)`", common, re.MULTILINE) == codes


@pytest.mark.parametrize("page", make_man.PAGES)
def test_page_lints(page):
    mandoc, groff = shutil.which("mandoc"), shutil.which("groff")
    if mandoc:
        command = [mandoc, "-T", "lint", "-W", "warning", page]
    elif groff:
        command = [groff, "-man", "-ww", "-z", page]
    elif os.environ.get("ODMTOOL_REQUIRE_STOCK") == "1":
        pytest.fail("neither mandoc nor groff is installed")
    else:
        pytest.skip("neither mandoc nor groff is installed")
    done = subprocess.run(command, capture_output=True, text=True, cwd=MAN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# A B\n\nword `-x` word\nmore", r'.SH "A B"|word \fB\-x\fR word more'),
        ("# A\nword\n\n.start", r'.SH "A"|word|.PP|\&.start'),
        ("# A\n\n    .x\n    'y'  z", r'.SH "A"|.RS 4|.nf|\&.x|\(aqy\(aq  z|.fi|.RE'),
        ("- `0` one\n  two\n- `1` three", r".TP|\fB0\fR|one two|.TP|\fB1\fR|three"),
    ],
)
def test_markup(text, expected):
    assert "|".join(make_man.markup(text)) == expected


def test_every_option_has_one_heading():
    from odmtool.cli.cv import cv
    from odmtool.cli.sections import SECTIONS
    from odmtool.cli.train import train

    named = [name for names in SECTIONS.values() for name in names]
    options = {p.name for c in (train, cv) for p in c.params if isinstance(p, click.Option)}
    assert len(set(named)) == len(named)
    assert options - set(named) == {"quiet", "verbose", "version"}
    assert set(named) <= options
