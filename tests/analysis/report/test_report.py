"""The report: one page that stands alone, the verdict first."""

import base64
import itertools
import json
import shutil

import pytest
from page import Page

from bayes_feasible import cli
from bayes_feasible.analysis.report import figures, geometry, report, style
from bayes_feasible.analysis.study import convergence
from bayes_feasible.analysis.study.store import digest, hash_bytes
from bayes_feasible.files.guard import Folder


@pytest.fixture(scope="module")
def original(instance, data, summary, tmp_path_factory):
    path = tmp_path_factory.mktemp("original")
    (path / "figures").mkdir()
    data.to_netcdf(path / "results.nc", engine="h5netcdf")
    summary.to_netcdf(path / "summary.nc", engine="h5netcdf")
    style.save(figures.log_error(summary), path / "figures" / "log_error")
    style.save(geometry.geometry(instance)[0], path / "figures" / "geometry")
    (path / "specification.toml").write_text('title = "Which <dose>?"\nhorizon = 10000\n')
    outputs = {
        name: {"sha256": hash_bytes((path / name).read_bytes()), "from": "parts"}
        for name in ("results.nc", "summary.nc", "figures/log_error.svg")
    }
    manifest = {
        "format": 1, "meaning": {}, "hash": digest({}), "specification": {}, "version": "0.1",
        "versions": {"numpy": "9.9.9"}, "outputs": outputs,
    }  # fmt: skip
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "study")


def render(folder, summary):
    """The page with another summary."""
    (folder / "summary.nc").unlink()
    summary.to_netcdf(folder / "summary.nc", engine="h5netcdf")
    return Page(report.render(Folder(folder)))


@pytest.fixture
def page(folder):
    return Page(report.write(folder).read_text(encoding="utf-8"))


def test_the_page_stands_alone(page, folder):
    assert page.all("script") == []
    for _, attributes in page.elements:
        for name in ("src", "href"):
            if name in attributes:
                assert attributes[name].startswith("data:")
        assert not any(name.startswith("on") for name in attributes)
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "http" not in text.split("</style>")[0]
    assert "@import" not in text
    assert "url(" not in text


def test_every_picture_is_inside_and_described(page, folder):
    pictures = page.all("img")
    assert len(pictures) == 2
    for picture in pictures:
        assert len(picture["alt"]) > 60
        kind, content = picture["src"].split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(content).rstrip().endswith(b"</svg>")
    first = base64.b64decode(pictures[0]["src"].split(",", 1)[1])
    assert first == (folder / "figures" / "log_error.svg").read_bytes()
    assert "Oracle -" in pictures[0]["alt"]  # with its number


def test_the_answer_then_the_question_then_the_rest(page):
    text = page.text
    order = [
        "The answer.", "least likely to be wrong under Oracle", "The question.", "Verdict",
        "Warnings", "Figures", "The numbers", "Can the fits be trusted?", "The optimum",
        "Where this comes from", "Specification", "Versions", "Checksums",
    ]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_every_wide_table_scrolls_by_itself(page):
    """On a telephone the page is as wide as the screen, and no table reaches out of it."""
    (style,) = [data for data in page.words if ".scroll" in data]
    assert ".scroll { overflow-x: auto;" in style
    boxes = [
        attributes
        for (tag, attributes), (inner, _) in itertools.pairwise(page.elements)
        if (tag, inner) == ("div", "table")
    ]
    assert len(boxes) == len(page.all("table")) >= 4
    for box in boxes:  # also with the keyboard alone, and announced by its caption
        assert box["class"].split()[0] == "scroll"
        assert (box["tabindex"], box["role"]) == ("0", "region")
        assert box["aria-label"] in page.text
    (viewport,) = [meta for meta in page.all("meta") if meta.get("name") == "viewport"]
    assert "width=device-width" in viewport["content"]


def test_an_undecided_rule_says_first_what_it_needs(instance, data, folder):
    short = data.isel(time=slice(0, 4))
    summary = convergence.summarise(short, instance, regression=False, progress=False)
    page, one = render(folder, summary), summary.sel(rule="Oracle")
    assert one.verdict.item() == "undecided"
    assert f"Oracle undecided Needs T ≈ {one.needs.item():,.0f}:" in " ".join(
        " ".join(page.words).split()
    )
    assert "Undecided: neither holds yet; about T pulls would tell." in page.text


def test_numbers_are_those_of_the_summary(page, summary):
    text = page.text
    for rule in summary.rule.values:
        one = summary.sel(rule=rule)
        assert f"{float(one.relative_rate):.3f}" in text
        assert f"{float(one.relative_lower):.3f} to {float(one.relative_upper):.3f}" in text
        explanation = str(one.explanation.item())
        assert explanation[1:] in text.replace("\N{NO-BREAK SPACE}", " ")
    assert report.write_headline(summary) in text
    assert f"{summary.attrs['rate']:.10g}" in text
    assert "95 % interval" in text
    assert "nan" not in text


def test_names_are_escaped(page, folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    for words in ("Which <dose>?", "The fit of Uniform <b> cannot be trusted: R-hat 1.200"):
        assert words in page.text
        assert words not in text


def test_changed_and_missing_files_are_said(folder):
    assert "Changed since the study wrote it" not in report.render(Folder(folder))
    (folder / "figures" / "log_error.svg").write_text("<svg></svg>")
    (folder / "results.nc").unlink()
    page = Page(report.render(Folder(folder)))
    assert "Changed since the study wrote it: figures/log_error.svg." in page.text
    assert "Missing: results.nc." in page.text


def test_a_fault_and_few_replicates_are_warned_of(summary, folder):
    summary = summary.assign_attrs(replicates=3, method="last decade")
    summary["verdict"] = ("rule", ["fault", "below"])
    summary["explanation"] = ("rule", ["above what any rule can reach", "slow"])
    text = render(folder, summary).text
    assert "Oracle: above what any rule can reach." in text
    assert "Only 3 replicates" in text
    assert "There is no regression" in text


def test_samplers_are_shown_with_their_reasons(board, folder):
    board.to_netcdf(folder / "scoreboard.nc", engine="h5netcdf")
    style.save(figures.scoreboard(board.sel(time=1000)), folder / "figures" / "scoreboard_1000")
    page = Page(report.render(Folder(folder)))
    assert "Samplers of the alternative set after 1,000 pulls" in page.text
    assert "3900 draws diverged" in page.text
    bad = "slice (condemned), smc (failed)."
    assert f"Samplers that do not pass after 1,000 pulls: {bad}" in page.text
    scores = "exact trusted, 3,000; slice condemned, 6; smc failed, -."
    assert f"after 1,000 pulls: {scores}" in page.all("img")[-1]["alt"]


def test_a_fit_that_overshoots_is_not_taken_for_a_rule_that_beats_the_optimum(summary, folder):
    summary = summary.copy()
    summary["verdict"] = ("rule", ["undecided", "below"])
    summary["relative_rate"] = ("rule", [1.044, 0.4])
    summary["relative_lower"] = ("rule", [1.017, 0.3])
    summary["relative_upper"] = ("rule", [1.071, 0.5])
    text = render(folder, summary).text
    assert "The fitted rate of Oracle, 1.044 Γ, does not mean that it beats Γ." in text
    assert "1.017 to 1.071 †" in text
    assert "0.300 to 0.500 †" not in text


def test_a_bare_folder_will_do(summary, tmp_path):
    summary.to_netcdf(tmp_path / "summary.nc", engine="h5netcdf")
    page = Page(report.write(tmp_path).read_text(encoding="utf-8"))
    assert report.render(Folder(tmp_path)).encode() == (tmp_path / "report.html").read_bytes()
    assert "Study: Oracle, Uniform <b>" in page.text
    assert page.all("img") == []


def test_command(capsys, folder, tmp_path):
    assert cli.main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    out = tmp_path / "page.html"
    assert cli.main(["report", str(folder), "--out", str(out), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert out.exists()
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nowhere"):
        assert cli.main(["report", str(path)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"bayes-feasible report: {path}: no s")
        assert err.count("\n") == 1
