"""`study` and `report` on folders that somebody else made: a clear message, and nothing outside."""

import os
import resource
import shutil
import signal
from pathlib import Path

import hostile_folders
import pytest
from error_curves import without_regression
from helpers import files

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.study import study
from bayes_feasible.files.atomic import write_bytes

SPECIFICATION = {
    "instance": {"name": "end_of_optimism", "alpha": 0.3},
    "rules": ["Oracle", "Uniform"],
    "horizon": 200,
    "replicates": 3,
    "checks": {"samplers": ["exact"], "checkpoints": [100], "draws": 100},
}
PATIENCE = 60  # seconds: a machine may have much else to do
MEMORY = 6 * 2**30  # bytes on top of what the process has
CASES = hostile_folders.cases()
QUICK = [  # one of each kind
    "manifest.json: pipe", "manifest.json: device", "manifest.json: stretched",
    "manifest.json: deep", "manifest: claims 'figures/../../outside/victim.txt'",
    "manifest: record without origin", "manifest: versions of numbers", "manifest: outputs none",
    "specification.toml: link to a file", "specification.toml: text", "toml: title of numbers",
    "summary.nc: missing", "summary.nc: folder", "summary.nc: socket", "summary.nc: link to netCDF",
    "summary.nc: texts", "summary.nc: none of each", "summary.nc: other verdicts",
    "summary.nc: stored outside", "summary.nc: mapped outside", "summary.nc: linked outside",
    "summary.nc: inflated", "summary.nc: knotted", "scoreboard.nc: no attributes",
    "optimum.nc: nothing", "results.nc: scrambled", "report.html: link to a file",
    "figures/log_error.svg: link to a file", "figures/log_error.svg: link to nothing",
    "figures: a link", "parts: a link", "parts: a file", "parts/Oracle*: nothing",
]  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A finished study, but for the regression and the figures, which take long."""

    def draw(summary, boards, wanted, path):
        found = [path / name for name in ("accuracy.png", "log_error.svg")]
        for each in found:
            write_bytes(each, b"<svg></svg>")
        return found

    folder = tmp_path_factory.mktemp("original") / "study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "_summarise", without_regression)
        patch.setattr(study, "_draw", draw)
        bf.study(SPECIFICATION, folder, workers=1, progress=False)
        shutil.copyfile(folder / "specification.toml", folder.parent / "mine.toml")
        yield folder


@pytest.fixture(autouse=True)
def limits():
    """No memory without end, and no waiting."""

    def stop(*_):
        pytest.fail(f"still running after {PATIENCE} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    handler = signal.signal(signal.SIGALRM, stop)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


def run(capsys, folder, *words):
    """The command's exit code, which must have told what is wrong in one line.

    1: an output could not be written, and what is finished is kept.
    """
    signal.alarm(PATIENCE)
    code = cli.main([*map(str, words)])
    signal.alarm(0)
    error = capsys.readouterr().err
    assert code in (0, 2) or (code == 1 and "are finished and kept" in error), error
    if code:
        assert error.startswith(f"bayes-feasible {words[0]}: {folder}"), error
        assert error.count("\n") == 1
        assert len(error) < 2000
    page = folder / "report.html"
    if page.is_file() and not page.is_symlink():
        assert hostile_folders.SECRET not in page.read_bytes()[: 10**7].decode("utf-8", "replace")
    return code


def attack(name, original, place, capsys):
    """Exit codes of `report`, `study` and perhaps `study --restart`; nothing outside is touched."""
    outside, folder = place / "outside", place / "study"
    hostile_folders.fill_outside(outside)
    before = files(outside)
    shutil.copytree(original, folder)
    CASES[name](folder, outside)
    again = ["study", original.parent / "mine.toml", "--out", folder, "--quiet", "--workers", 1]
    codes = [run(capsys, folder, *words) for words in (["report", folder, "--quiet"], again)]
    if 2 in codes:
        codes.append(run(capsys, folder, *again, "--restart", "--results-only"))
    assert files(outside) == before
    return codes


@pytest.mark.parametrize("name", QUICK)
def test_a_hostile_folder(name, original, tmp_path, capsys):
    attack(name, original, tmp_path, capsys)


def test_a_sound_folder_and_an_empty_claim(original, tmp_path, capsys, monkeypatch):
    """The control: nothing is refused for nothing."""
    monkeypatch.setitem(CASES, "sound", lambda folder, outside: None)
    assert attack("sound", original, tmp_path, capsys) == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CASES) - set(QUICK)))
def test_any_hostile_folder(name, original, tmp_path, capsys):
    attack(name, original, tmp_path, capsys)


def test_there_are_many_ways():
    assert len(CASES) >= 200
