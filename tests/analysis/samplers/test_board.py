"""The board of samplers on targets is kept in a folder as studies are."""

import pytest

from bayes_feasible.analysis.samplers.board import board
from bayes_feasible.analysis.study import running
from bayes_feasible.files.lock import locked_folder


def quick(folder, targets=("one_event_4",)):
    return board(folder, ["exact"], targets, draws=200, progress=False)


def test_only_what_is_missing_is_computed(tmp_path):
    first = quick(tmp_path)
    (square,) = (tmp_path / "parts").iterdir()
    written = square.stat().st_mtime_ns
    both = quick(tmp_path, ["one_event_4", "corner"])
    assert square.stat().st_mtime_ns == written
    assert len(list((tmp_path / "parts").iterdir())) == 2
    assert both.sel(target="one_event_4").verdict.item() == first.verdict.item() == "trusted"


@pytest.mark.parametrize("name", ["parts", "board.html"])
def test_nothing_outside_the_folder_is_touched(tmp_path, name):
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    if name == "parts":
        outside.mkdir()
    else:
        outside.write_text("mine")
    (folder / name).symlink_to(outside)
    with pytest.raises(ValueError, match=name):
        quick(folder)
    assert list(outside.iterdir()) == [] if name == "parts" else outside.read_text() == "mine"


def test_one_process_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "LOCK_PATIENCE", 0.1)
    with (
        locked_folder(tmp_path, 0.1),
        pytest.raises(ValueError, match="another process is working on"),
    ):
        quick(tmp_path)
