"""Figures as SVG: whole, small, the same each time, and marked where the data are synthetic."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from traceana.drawing.svg import WATERMARK, _shorten, mark_synthetic, render_file, render_svg
from traceana.errors import DataError
from traceana.figures import draw_figure, draw_worker_times, figures

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_BYTES = 300_000


def noisy_samples(ticks: int = 30) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "job_id": "job_1",
            "worker_id": [str(worker) for worker in range(10) for _ in range(ticks)],
            "time_s": [1.0 + 10 * tick for _ in range(10) for tick in range(ticks)],
            "batch_time": rng.uniform(50, 1000, 10 * ticks),
        }
    )


def svg(*, prefix: str = "a", mark: bool = False, ticks: int = 30) -> str:
    figure = draw_figure("worker-times", noisy_samples(ticks))
    if mark:
        mark_synthetic(figure)
    return render_svg(figure, prefix=prefix)


def ids(text: str) -> list[str]:
    return re.findall(r'\bid="([^"]+)"', text)


def test_it_is_one_well_formed_element_with_text_as_text() -> None:
    root = ElementTree.fromstring(svg())  # noqa: S314  our own output
    assert root.tag.endswith("svg")
    texts = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert {
        "Mini-batch time of the workers, job_1",
        "worker",
        "0",
        "9",
        "Time since the job began (s)",
    } <= texts


def test_a_pdf_embeds_the_glyphs_of_its_text_whatever_was_drawn_before() -> None:
    def drawn(title: str) -> bytes:
        figure = Figure(figsize=(1, 1))
        figure.suptitle(title)
        return render_file(figure, "pdf")

    first = drawn("plain")
    other = drawn("плотность")  # none of these letters is in figures otherwise
    assert drawn("plain") == first
    embedded = [re.findall(rb"/FontDescriptor|/FontFile2|/Type3", pdf) for pdf in (first, other)]
    assert all(b"/FontFile2" in found and b"/Type3" not in found for found in embedded)
    lengths = [int(re.findall(rb"/Length1 (\d+)", pdf)[0]) for pdf in (first, other)]
    assert lengths[0] < lengths[1]


def test_it_refers_to_nothing_outside_itself_and_has_no_date() -> None:
    text = svg()
    assert set(re.findall(r'href="([^#"][^"]*)', text)) == set()
    assert "<metadata" not in text
    rules = "".join(re.findall("<style>(.*?)</style>", text))
    of_another = svg(prefix="b")
    for name in re.findall(r"([^{}]+)\{[^}]*\}", rules):
        assert name.startswith("."), "a rule inside would reach the whole page"
        assert name.removeprefix(".") not in of_another
    assert set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text)) <= set(ids(text))


def test_two_figures_of_a_page_share_no_id() -> None:
    first, second = ids(svg(prefix="a")), ids(svg(prefix="b"))
    assert first
    assert not set(first) & set(second)
    assert len(set(first)) == len(first)


def test_the_same_figure_gives_the_same_bytes() -> None:
    assert svg() == svg()


def test_the_watermark_stands_once_in_a_figure_where_the_data_are_synthetic_only() -> None:
    assert WATERMARK not in svg()
    assert svg(mark=True).count(WATERMARK) == 1
    two = pl.concat([noisy_samples(), noisy_samples().with_columns(job_id=pl.lit("job_2"))])
    figure = draw_worker_times(two)
    mark_synthetic(figure)
    assert render_svg(figure, prefix="a").count(WATERMARK) == 1


def test_ten_workers_at_the_longest_jobs_ticks_stay_small() -> None:
    # pure noise, which no simplification helps
    assert len(svg(ticks=2183)) < LARGEST_BYTES


def test_the_published_jobs_stay_small(real_data: Path) -> None:
    for job in range(1, 5):
        rows = pl.read_csv(real_data / f"alibaba-minibatch-2020/job_{job}_norm.csv").select(
            job_id=pl.lit(f"job_{job}"),
            worker_id=pl.col("worker").cast(pl.String),
            time_s=pl.col("time").cast(pl.Float64),
            batch_time=pl.col("batch_time_norm").cast(pl.Float64),
        )
        text = render_svg(draw_figure("worker-times", rows), prefix=f"job_{job}")
        assert len(text) < LARGEST_BYTES


def test_every_registered_figure_tells_how_it_is_read() -> None:
    for entry in figures().values():
        assert entry.reading.endswith(".")
        assert entry.plot.__doc__


def test_an_unknown_figure_is_refused_with_the_list() -> None:
    with pytest.raises(
        DataError, match=r"no figure is called 'cv'; the figures are allocation-rate, arrivals"
    ):
        draw_figure("cv", noisy_samples())


def test_drawing_leaves_pyplot_and_the_users_settings_alone() -> None:
    program = (
        "import sys, matplotlib, polars as pl\n"
        "from traceana.drawing.svg import render_svg\nfrom traceana.figures import draw_figure\n"
        "names = set(matplotlib.rcParams) - {'backend'}  # to ask for it is to load pyplot\n"
        "before = {name: matplotlib.rcParams[name] for name in names}\n"
        "cov = pl.DataFrame({'job_id': ['a'], 'time_s': [1.0], 'cov': [0.5]})\n"
        "render_svg(draw_figure('cov', cov, ddof=0), prefix='a')\n"
        "assert {name: matplotlib.rcParams[name] for name in names} == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M 10.04 20.26 \nL 11.5 20.26 \nL 12.04 19.1 \n", "m10 20.3l1.5 0 .5-1.2"),
        ("M 1 1 \nL 2 1 \nL 2 2 \nz\nM 3 3 \nL 4 3 \nz\n", "m1 1l1 0 0 1zm2 2l1 0z"),
        ("M 0 -1.5 \nC 0.4 -1.5 0.8 -1.3 1.06 -1.06 \nz\n", "M0 -1.5C.4 -1.5 .8 -1.3 1.1 -1.1z"),
    ],
)
def test_paths_are_written_to_a_tenth_of_a_point(path: str, short: str) -> None:
    assert _shorten(f'd="{path}"') == f'd="{short}"'


def test_rounding_does_not_add_up_along_a_line() -> None:
    rng = np.random.default_rng(3)
    points = np.cumsum(rng.uniform(-0.34, 0.37, (5000, 2)), axis=0) + 50
    text = "".join(f"{'M' if i == 0 else 'L'} {x:f} {y:f} \n" for i, (x, y) in enumerate(points))
    steps = re.findall(r"-?\d*\.?\d+", _shorten(f'd="{text}"'))
    drawn = np.cumsum(np.array(steps, float).reshape(-1, 2), axis=0)
    assert np.abs(drawn - points).max() < 0.0501
