"""Figures as files: the report's own pictures, the same each time, marked where synthetic."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread

from traceana.claims import PAPERS
from traceana.claims.papers import PUBLISHED, numbered
from traceana.cli import main
from traceana.errors import DataError
from traceana.figures import figures
from traceana.ingesters import add_table
from traceana.page.section import sections
from traceana.report import build_report, write_figures

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
    write_figures("energy-saved", store=zeus_store.path, out=out)
    svg = (out / "saved-zeus-2023.svg").read_bytes()
    assert svg == (tmp_path / "report" / "figures" / "saved-zeus-2023.svg").read_bytes()
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


def test_what_cannot_be_drawn_says_which_table_it_needs(zeus_store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        write_figures("straggler-map", store=zeus_store.path, out=tmp_path)
    assert str(error.value) == (
        "straggler-map: the store has nothing to draw it from (detect_stragglers of "
        "one job); it needs `worker_samples` (batch_time)"
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
        f"traceana: no figure is called 'energy-frond'; the figures are {', '.join(figures())} "
        "(did you mean energy-front?)\n"
    )
    (tmp_path / "taken").write_text("in the way")
    place = ("--store", str(zeus_store.path), "--out", str(tmp_path / "taken"))
    assert run(monkeypatch, "energy-front", *place) == 2
    assert "figures cannot be written here (File exists)" in capsys.readouterr().err


def test_a_chosen_gpu_and_data_set_are_drawn_though_the_report_has_others(
    zeus_store: Store, tmp_path: Path
) -> None:
    written = write_figures(
        "energy-front",
        store=zeus_store.path,
        out=tmp_path,
        gpu="A40",
        dataset="cifar100",
        formats="png",
        dpi=100,
        size="84mm",
    )
    (png,) = (path for path in written.paths if path.suffix == ".png")
    assert png.name == "front-zeus-2023-a40-cifar100.png"
    assert imread(png).shape[1] == pytest.approx(84 / 25.4 * 100, abs=1)
    caption = (tmp_path / "energy-front.captions.md").read_text(encoding="utf-8")
    assert "Energy versus time to the target of cifar100 on a40" in caption
    bars = write_figures(
        "energy-savings", store=zeus_store.path, out=tmp_path / "bars", gpu="p100", formats=["svg"]
    )
    assert [path.name for path in bars.paths] == [
        "savings-zeus-2023-p100.svg",
        "energy-savings.captions.md",
    ]


def test_pictures_in_one_folder_keep_their_captions(zeus_store: Store, tmp_path: Path) -> None:
    for gpu in ("p100", "a40", "p100"):
        options: dict[str, Any] = {"gpu": gpu, "formats": "svg"}
        write_figures("energy-savings", store=zeus_store.path, out=tmp_path, **options)
    captions = (tmp_path / "energy-savings.captions.md").read_text(encoding="utf-8")
    keys = [line.split("**")[1] for line in captions.splitlines() if line.startswith("**")]
    assert keys == ["savings-zeus-2023-p100", "savings-zeus-2023-a40"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpu": "h100"}, "there is no GPU 'h100'; there are a40, p100, rtx6000, v100"),
        ({"dataset": "mnist", "gpu": "a40"}, "no configuration on a40 of data set 'mnist'"),
        ({"job": "job_1"}, "no figure has job 'job_1'; available: front-zeus-2023-"),
        ({"trace": "mine"}, "the store has no trace 'mine'; it has zeus-2023"),
        ({"formats": "gif"}, "no format is called 'gif'"),
        ({"size": "wide"}, "size must be a width from 20 mm to 1,000 mm"),
        ({"size": "1mm"}, "size must be a width from 20 mm to 1,000 mm"),
        ({"dpi": 0}, "dpi must be from 30 to 2400; it is 0"),
    ],
)
def test_a_choice_that_is_not_there_names_what_is(
    zeus_store: Store, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        write_figures("energy-front", store=zeus_store.path, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_job_is_drawn_from_its_own_rows(tmp_path: Path) -> None:
    rows = {
        "job_id": ["b"] * 4 + ["a-b"] * 4,
        "worker_id": ["0", "0", "1", "1"] * 2,
        "time_s": [0.0, 10.0, 0.0, 10.0] * 2,
        "batch_time": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    }
    store = tmp_path / "store"
    add_table(pl.DataFrame(rows), trace="mine", table="worker_samples", store=store)
    written = write_figures(
        ["worker-times", "straggler-map"], store=store, out=tmp_path, job="b", formats="svg"
    )
    assert {path.name for path in written.paths if path.suffix == ".svg"} == {
        "times-mine-b.svg",
        "stragglers-mine-b.svg",
    }
    captions = (tmp_path / "worker-times.captions.md").read_text(encoding="utf-8")
    assert "n = 4 samples." in captions


def test_figures_of_a_paper_are_listed_without_a_store(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(PUBLISHED) <= set(PAPERS)
    for paper, published in PUBLISHED.items():
        assert run(monkeypatch, "--paper", paper) == 0
        listed = capsys.readouterr().out
        for one in published:
            assert one.figure in ("", *figures())
            assert one.figure in listed
    assert [one.number for one in numbered("zeus", "7")] == ["7a", "7b"]
    assert [one.number for one in numbered("zeus", "7a")] == ["7a"]
    assert [one.number for one in numbered("zeus", "21")] == ["19 to 23"]
    assert [one.number for one in numbered("zeus", "1")] == ["1"]
    assert run(monkeypatch, "--paper", "zeus", "--number", "70") == 2
    assert "its numbers are 1, 2a, 6, 7a, 7b, 8, 9, 11, " in capsys.readouterr().err
    assert run(monkeypatch, "--number", "7a") == 2
    assert run(monkeypatch, "--paper", "elasticflow") == 0
    assert "throughput" in capsys.readouterr().out
    assert run(monkeypatch, "--paper", "gandiva") == 2
    assert f"the papers are {', '.join(PUBLISHED)}" in capsys.readouterr().err


def test_a_numbered_figure_whose_file_is_missing_names_it_and_the_remedy(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for table in ("training_runs", "power_profiles"):
        rows = store.scan("zeus-2023", table).collect()
        add_table(rows, trace="zeus-2023", table=table, store=tmp_path)
    asked = ("--paper", "zeus", "--number", "9", "--store", str(tmp_path))
    assert run(monkeypatch, *asked, "--out", str(tmp_path / "figures")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(
        "traceana: figure 9 of zeus, energy and time of the Alibaba groups: the store lacks "
        "alibaba_groups.csv.xz of zeus-2023; run `traceana fetch zeus-2023"
    )


def test_every_figure_has_a_section_that_draws_it() -> None:
    assert {name for section in sections() for name in section.figures} == set(figures())
