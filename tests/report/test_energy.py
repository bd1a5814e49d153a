"""The energy section against the analyses and against computations of another kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.report.reader import Element, number, read_table, section
from traceana import energy_coverage, energy_savings, energy_to_accuracy
from traceana.ingesters import add_table
from traceana.page.blocks import Gallery
from traceana.page.section import Context, sections
from traceana.report.arrange import content_of
from traceana.report.build import find_data_source
from traceana.schema import TRAINING_DEFAULTS
from traceana.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store import Store


@pytest.fixture(scope="module")
def part(page: Element) -> Element:
    return section(page, "energy")


@pytest.fixture(scope="module")
def tables(store: Store) -> tuple[pl.DataFrame, pl.DataFrame]:
    runs, power = (
        store.scan("zeus-2023", table).collect() for table in ("training_runs", "power_profiles")
    )
    return runs, power


def test_savings_are_the_least_energy_of_all_configurations(
    part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    rows = read_table(part, "Energy saved, as a percentage of the default")
    pairs = tables[1].select("gpu", "dataset").unique().sort("gpu", "dataset").rows()
    assert [(row["GPU"], row["Data set"]) for row in rows] == pairs
    for row in rows:
        energy = energy_to_accuracy(*tables, gpu=row["GPU"], dataset=row["Data set"])
        limit = max(tables[1].filter(gpu=row["GPU"])["power_limit_w"])
        profiled = tables[1].filter(gpu=row["GPU"], dataset=row["Data set"])["batch_size"]
        batch = min(TRAINING_DEFAULTS[row["Data set"]].batch_size, max(profiled))
        assert row["Default"] == f"{batch}, {limit:g} W"
        ((baseline,),) = energy.filter(batch_size=batch, power_limit_w=limit).select("eta_j").rows()
        for heading, among in {
            "Batch size only": energy.filter(power_limit_w=limit),
            "Power limit only": energy.filter(batch_size=batch),
            "Both": energy,
        }.items():
            saved = 100 * (1 - min(among["eta_j"]) / baseline)
            assert number(row[heading]) == pytest.approx(saved, abs=0.0501)
        if " to " in row["95 % interval"]:
            low, high = map(number, row["95 % interval"].removesuffix("%").split(" to "))
            assert low - 0.0501 <= number(row["Both, held-out runs"]) <= high + 0.0501
        best = energy.sort("eta_j").row(0, named=True)
        assert row["Best"] == f"{best['batch_size']}, {best['power_limit_w']:g} W"


def test_cost_is_saved_too(part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    expected = energy_savings(*tables).filter(objective="cost", choice="both")
    shown = [number(row["Both"]) for row in read_table(part, "Cost saved, as a percentage")]
    assert shown == pytest.approx([100 * (1 - ratio) for ratio in expected["ratio"]], abs=0.0501)


def test_coverage_counts_every_batch_size_once(
    part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    rows = read_table(part, "Batch sizes by feasibility")
    assert len(rows) == 24
    for row in rows:
        coverage = energy_coverage(*tables, gpu=row["GPU"], dataset=row["Data set"])
        assert number(row["Feasible"]) == coverage["feasible"].sum()
        left_out = [number(row[heading]) for heading in row if heading.startswith("Excluded")]
        assert number(row["Feasible"]) + sum(left_out) == coverage.height


def test_the_front_is_that_of_the_publishers_figure(
    part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    energy = energy_to_accuracy(*tables, gpu="v100", dataset="librispeech")
    front = energy.filter("on_front").sort("tta_s")
    rows = read_table(part, "Configurations on the front: librispeech on v100")
    assert [number(row["Batch size"]) for row in rows] == front["batch_size"].to_list()
    shown = [row["Energy"].replace("\N{NO-BREAK SPACE}", " ") for row in rows]
    assert all(text.endswith(" MJ") for text in shown)
    assert [float(text.removesuffix(" MJ")) for text in shown] == pytest.approx(
        [eta_j / 1e6 for eta_j in front["eta_j"]], abs=0.00501
    )
    (caption,) = (
        caption.text for caption in part.all("figcaption") if "versus time" in caption.text
    )
    assert f"{energy.height:,} configurations" in caption


def test_all_gpus_in_one_figure_and_the_range_on_the_v100(
    page: Element, part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    gpus = tables[1]["gpu"].unique().sort().to_list()
    texts = {text.text for text in part.all("figure")[0].all("text")}
    assert {*map(str.upper, gpus), *tables[1]["dataset"].unique()} <= texts
    ratios = (
        energy_savings(*tables)
        .filter(gpu="v100", objective="energy", choice="both")["ratio"]
        .to_list()
    )
    low, high = (f"{100 * (1 - end(ratios)):.0f}" for end in (max, min))
    assert f"{low} to {high} % of the energy" in section(page, "energy").text.replace(
        "\N{NO-BREAK SPACE}", " "
    )


def test_data_sets_that_nobody_named_reach_energy_recurring_and_deadlines(
    store: Store, tmp_path: Path
) -> None:
    for trace, names in {
        "zeus-2023": ("training_runs", "power_profiles"),
        "elasticflow-2023": ("jobs", "training_plans"),
    }.items():
        for name in names:
            rows = store.scan(trace, name).collect()
            if "dataset" in rows.columns:
                rows = rows.with_columns(dataset="our " + pl.col("dataset"))
            add_table(rows, trace="lab", table=name, store=tmp_path, title="Our lab")
    context = Context(open_store(tmp_path), data_source=find_data_source(tmp_path))
    for name, figures in {"energy": 3, "recurring": 2, "deadlines": 1}.items():
        (part,) = (part for part in sections() if part.id == name)
        content = content_of(part, context)
        assert content.findings
        drawn = [block for block in content.all_blocks if isinstance(block, Gallery)]
        assert sum(len(gallery.pictures) for gallery in drawn) >= figures
        # rules are tested where the publisher generated the plans, which nobody states here
        assert "Rules of the plans" not in str(content.all_blocks)
