"""Figures as files: the report's own pictures, the same each time, marked where synthetic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.image import imread

from traceana.cli import main
from traceana.errors import DataError
from traceana.figures import figures
from traceana.report import build_report, write_figures
from traceana.report.section import sections

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store import Store


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["traceana", "figures", *arguments])
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


def test_every_picture_of_a_figure_in_three_formats(zeus_store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    written = write_figures("energy-savings", store=zeus_store.path, out=out)
    gpus = ("a40", "p100", "rtx6000", "v100")
    expected = {
        f"savings-zeus-2023-{gpu}.{suffix}" for gpu in gpus for suffix in ("svg", "pdf", "png")
    }
    assert {path.name for path in out.iterdir()} == expected | {"energy-savings.captions.md"}
    assert set(written.paths) == set(out.iterdir())
    assert written.absent == ()
    assert str(written).splitlines() == [str(path) for path in written.paths]
    captions = (out / "energy-savings.captions.md").read_text(encoding="utf-8")
    assert captions.count("SYNTHETIC data: no real system is shown.") == len(gpus)
    assert all(
        f"**savings-zeus-2023-{gpu}**: Energy to the target on {gpu}" in captions for gpu in gpus
    )
    # the report's own
    build_report(zeus_store.path, out=tmp_path / "report", only="energy", formats="md")
    svg = (out / "savings-zeus-2023-v100.svg").read_bytes()
    assert svg == (tmp_path / "report" / "figures" / "savings-zeus-2023-v100.svg").read_bytes()
    assert b"SYNTHETIC" in svg


def test_the_same_data_give_the_same_bytes_and_no_date(
    zeus_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache" / name))
        write_figures(["energy-front"], store=zeus_store.path, out=tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
        assert not any(word in path.read_bytes() for word in (b"CreationDate", b"Software"))
    (png,) = (tmp_path / "one").glob("*.png")
    pixels = imread(png)
    assert pixels.shape[1] == pytest.approx(3.6 * 300, abs=2)
    red = (pixels[..., 0] > pixels[..., 1] + 0.08) & (pixels[..., 0] > pixels[..., 2] + 0.08)
    assert np.count_nonzero(red) > 1000, "the watermark"


def test_what_cannot_be_drawn_says_what_to_fetch(zeus_store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        write_figures("straggler-map", store=zeus_store.path, out=tmp_path)
    assert str(error.value) == (
        "straggler-map: the store has nothing to draw it from (detect_stragglers of "
        "one job); to get it: traceana fetch alibaba-minibatch-2020 --to "
        "files/alibaba-minibatch-2020 && traceana ingest files/alibaba-minibatch-2020 "
        f"--store '{zeus_store.path}'"
    )
    both = write_figures(["cov", "energy-front"], store=zeus_store.path, out=tmp_path)
    assert len(both.paths) == 4
    (absent,) = both.absent
    assert absent.startswith("cov: the store has nothing to draw it from")


def test_the_command_lists_writes_and_refuses(
    zeus_store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for name in figures())
    monkeypatch.setattr("traceana.report.run._MOST_WORKERS", 1)
    place = ("--store", str(zeus_store.path), "--out", str(tmp_path))
    assert run(monkeypatch, "energy-front", *place) == 0
    told = capsys.readouterr()
    assert sorted(told.out.splitlines()) == sorted(map(str, tmp_path.iterdir()))
    assert run(monkeypatch, "energy-frond", *place) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"traceana: no figure is called 'energy-frond'; the figures are {', '.join(figures())}\n"
    )
    (tmp_path / "taken").write_text("in the way")
    place = ("--store", str(zeus_store.path), "--out", str(tmp_path / "taken"))
    assert run(monkeypatch, "energy-front", *place) == 2
    assert "figures cannot be written here (File exists)" in capsys.readouterr().err


def test_every_figure_has_a_section_that_draws_it() -> None:
    assert {name for section in sections() for name in section.figures} == set(figures())
