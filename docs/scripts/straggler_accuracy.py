"""Measure how well planted stragglers are found, and write the tables of the page on stragglers.

    python docs/scripts/straggler_accuracy.py

All series are synthetic, from seeds. Takes a few minutes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

from traceana import detect_stragglers

PAGE = Path(__file__).parents[1] / "explanation" / "stragglers.md"
TICKS, STEP_S = 360, 10.0  # an hour


@dataclass(frozen=True)
class Setting:
    """A kind of job, synthetic."""

    n_workers: int = 10
    cv: float = 0.05
    rho: float = 0.0  # of the noise from tick to tick
    hold: int = 1  # mean samples that a value is held, 1 to 2 * hold - 1
    shape: str = "normal"
    spikes: float = 0.0  # fraction of samples that take three times as long
    whole_job: str = "steady"
    populations: int = 1
    severity: float = 1.0
    length: int = 0  # samples
    slow_workers: int = 0


def simulate(setting: Setting, n_jobs: int, seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    """Samples of some jobs, and the tick at which each job's stragglers become slow."""
    rng = np.random.default_rng(seed)
    shape = (n_jobs, setting.n_workers, TICKS)
    level = 100 * rng.lognormal(0, 0.1, (*shape[:2], 1))
    level = level * (1 + 3 * (np.arange(setting.n_workers) % setting.populations))[:, None]
    value = level * noise(rng, shape, setting) * whole_job(rng, *shape[:2], setting.whole_job)
    if setting.spikes:
        value *= np.where(rng.random(shape) < setting.spikes, 3, 1)
    onset = rng.integers(10, TICKS - setting.length - 9, n_jobs)
    slow = np.arange(TICKS) - onset[:, None]
    slow = (slow >= 0) & (slow < setting.length)
    value[:, : setting.slow_workers] *= np.where(slow, setting.severity, 1)[:, None]
    value = hold(rng, value, setting.hold)
    job, worker, tick = (axis.ravel() for axis in np.indices(shape))
    frame = {"job_id": job, "worker_id": worker, "time_s": tick * STEP_S, "value": value.ravel()}
    return pl.DataFrame(frame), onset


def noise(rng: np.random.Generator, shape: tuple[int, ...], setting: Setting) -> np.ndarray:
    z = rng.standard_normal(shape)
    for tick in range(1, shape[-1]):
        fresh = np.sqrt(1 - setting.rho**2) * z[..., tick]
        z[..., tick] = setting.rho * z[..., tick - 1] + fresh
    if setting.shape == "lognormal":
        sigma = np.sqrt(np.log1p(setting.cv**2))
        return np.exp(sigma * z - sigma**2 / 2)
    if setting.shape == "heavy":  # Student's t of 3 degrees, of the logarithm
        t = stats.t.ppf(stats.norm.cdf(z), 3) / np.sqrt(3)
        return np.exp(np.clip(setting.cv * t, -2, 2.5))
    if setting.shape == "spikes":  # calm, but one sample in ten is up by 3 cv on average
        spikes = rng.exponential(3 * setting.cv, shape) * (rng.random(shape) < 0.1)
        return 1 + setting.cv / 5 * z + spikes
    return np.maximum(1 + setting.cv * z, 0.05)


def whole_job(rng: np.random.Generator, n_jobs: int, n_workers: int, kind: str) -> np.ndarray:
    tick = np.arange(TICKS)
    if kind == "drift":
        factor = np.tile(1 + 0.6 * tick / TICKS, (n_jobs, 1))
    elif kind == "wave":
        factor = 1 + 0.4 * np.sin(2 * np.pi * (tick / 180 + rng.random((n_jobs, 1))))
    elif kind == "step":
        begin = rng.integers(20, TICKS - 60, (n_jobs, 1))
        factor = np.where((tick >= begin) & (tick < begin + 40), 1.8, 1)
    elif kind == "staggered":
        begin = rng.integers(20, TICKS - 60, (n_jobs, 1, 1)) + rng.integers(
            0, 6, (n_jobs, n_workers, 1)
        )
        return np.where((tick >= begin) & (tick < begin + 40), 1.8, 1)
    elif kind == "for good":
        begin = rng.integers(TICKS // 4, 3 * TICKS // 4, (n_jobs, 1))
        factor = np.where(tick >= begin, 1.5, 1)
    else:
        factor = np.ones((n_jobs, TICKS))
    return factor[:, None]


def hold(rng: np.random.Generator, value: np.ndarray, samples: int) -> np.ndarray:
    gaps = rng.integers(1, 2 * samples, value.shape)
    reports = np.cumsum(gaps, axis=-1) - gaps[..., :1]
    is_report = np.zeros(value.shape, dtype=bool)
    job, worker, place = np.nonzero(reports < TICKS)
    is_report[job, worker, reports[job, worker, place]] = True
    last = np.maximum.accumulate(np.where(is_report, np.arange(TICKS), 0), axis=-1)
    return np.take_along_axis(value, last, axis=-1)


def measure(setting: Setting, *, n_jobs: int = 40, seed: int = 1) -> dict[str, float]:
    """Recall, precision and errors of onset and end, in samples."""
    samples, onset = simulate(setting, n_jobs, seed)
    found = detect_stragglers(samples, value="value").episodes.with_columns(
        first=pl.col("onset_s") / STEP_S,
        last=pl.col("end_s") / STEP_S,
    )
    planted = pl.DataFrame({"job_id": np.arange(n_jobs), "planted": onset})
    found = found.join(planted, on="job_id")
    end = pl.col("planted") + setting.length - 1
    hits = found.filter(
        pl.col("worker_id") < setting.slow_workers,
        pl.col("first") <= end,
        pl.col("last") >= pl.col("planted"),
    ).unique(["job_id", "worker_id"], keep="first", maintain_order=True)
    late = (hits["first"] - hits["planted"]).abs()
    ends = hits.select((pl.col("last") - end).abs()).to_series()
    return {
        "recall": hits.height / (n_jobs * setting.slow_workers),
        "precision": hits.height / found.height if found.height else np.nan,
        "onset": late.mean() if hits.height else np.nan,
        "onset_p90": late.quantile(0.9) if hits.height else np.nan,
        "end": ends.mean() if hits.height else np.nan,
        "severity": hits["severity"].median() if hits.height else np.nan,
    }


def false_alarms(setting: Setting, *, n_jobs: int, seed: int = 2) -> float:
    """Episodes an hour of a job without a straggler."""
    samples, _ = simulate(setting, n_jobs, seed)
    return detect_stragglers(samples, value="value").episodes.height / n_jobs


def table(head: list[str], rows: Iterator[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text(number: float, digits: int = 2) -> str:
    return "-" if np.isnan(number) else f"{number:.{digits}f}"


def recall_rows() -> Iterator[list[str]]:
    for cv in (0.01, 0.05, 0.1, 0.2):
        for severity in (1.1, 1.2, 1.3, 1.5, 2.0, 3.0):
            cells = [
                measure(Setting(cv=cv, severity=severity, length=length, slow_workers=1))["recall"]
                for length in LENGTHS
            ]
            yield [f"{cv:.0%}", f"{severity:g}", *(text(cell) for cell in cells)]


def recall_table() -> str:
    """Rows with some misses; those without, and those with few hits, are named below."""
    rows = list(recall_rows())
    always = [row for row in rows if set(row[2:]) == {"1.00"}]
    never = [row for row in rows if max(map(float, row[2:])) <= 0.03]
    others = (row for row in rows if row not in always + never)
    head = ["noise (CoV)", "severity", *(f"{length} samples" for length in LENGTHS)]
    named = ("; ".join(f"{row[0]}, {row[1]}" for row in part) for part in (always, never))
    ends = ("All detected (noise, severity): {}.", "At most 3 % detected: {}.")
    text = " ".join(end.format(part) for end, part in zip(ends, named, strict=True))
    return f"{table(head, others)}\n\n{text}"


def setting_rows() -> Iterator[list[str]]:
    plain = Setting(severity=1.5, length=30, slow_workers=1, cv=0.1)
    others = {
        "default": plain,
        "noise of CoV 1 %": replace(plain, cv=0.01),
        "noise of CoV 5 %": replace(plain, cv=0.05),
        "noise of CoV 20 %": replace(plain, cv=0.2),
        "lognormal noise of CoV 20 %": replace(plain, cv=0.2, shape="lognormal"),
        "3 % of samples spikes": replace(plain, spikes=0.03),
        "10 % of samples spikes": replace(plain, spikes=0.1),
        "noise with autocorrelation 0.5": replace(plain, rho=0.5),
        "noise with autocorrelation 0.9": replace(plain, rho=0.9),
        "values repeated for 2 samples": replace(plain, hold=2),
        "values repeated for 4 samples": replace(plain, hold=4),
        "values repeated for 12 samples": replace(plain, hold=12),
        "values repeated for 12 samples, 100 slow": replace(plain, hold=12, length=100),
        "2 workers": replace(plain, n_workers=2),
        "3 workers": replace(plain, n_workers=3),
        "32 workers": replace(plain, n_workers=32),
        "4 of 10 slow together": replace(plain, slow_workers=4),
        "5 of 10 slow together": replace(plain, slow_workers=5),
        "16 of 32 slow together": replace(plain, n_workers=32, slow_workers=16),
        "slow for 100 samples of 360": replace(plain, length=100),
        "5 of 10 slow for 100 samples of 360": replace(plain, slow_workers=5, length=100),
        "5 of 10 slow for 150 samples of 360": replace(plain, slow_workers=5, length=150),
        "slow for 160 samples of 360": replace(plain, length=160),
        "two populations, 1 : 4": replace(plain, populations=2),
        "the job in waves": replace(plain, whole_job="wave"),
        "the job drifts by 1.6": replace(plain, whole_job="drift"),
        "the job slower by 1.8 for a while": replace(plain, whole_job="step"),
        "the job slower by 1.5 permanently": replace(plain, whole_job="for good"),
    }
    for name, setting in others.items():
        found = measure(setting, n_jobs=60)
        keys = ("recall", "precision", "onset", "severity")
        yield [name, *(text(found[key]) for key in keys)]


def setting_table() -> str:
    """Settings with misses or false alarms as rows; the others are named below the table."""
    rows = list(setting_rows())
    exact = [row for row in rows if row[1:3] == ["1.00", "1.00"]]
    head = ["", "recall", "precision", "onset off by", "severity"]
    named = "; ".join(row[0] for row in exact)
    shown = (row for row in rows if row not in exact)
    return f"{table(head, shown)}\n\nRecall and precision of 1: {named}."


def false_alarm_rows() -> Iterator[list[str]]:
    settings = {
        "normal": Setting(),
        "lognormal": Setting(shape="lognormal"),
        "heavy tails (Student, 3 degrees)": Setting(shape="heavy"),
        "one sample in ten a spike": Setting(shape="spikes"),
        "3 % threefold spikes": Setting(spikes=0.03),
        "10 % threefold spikes": Setting(spikes=0.1),
        "autocorrelation 0.5": Setting(rho=0.5),
        "autocorrelation 0.9": Setting(rho=0.9),
        "lognormal, autocorrelation 0.9": Setting(rho=0.9, shape="lognormal"),
        "heavy tails, autocorrelation 0.9": Setting(rho=0.9, shape="heavy"),
        "autocorrelation 0.98": Setting(rho=0.98),
        "repeated for 4 samples": Setting(hold=4),
        "repeated for 12 samples": Setting(hold=12, rho=0.5),
        "spikes, repeated for 4 samples": Setting(hold=4, shape="spikes"),
        "two populations, waves": Setting(populations=2, whole_job="wave"),
        "drift": Setting(whole_job="drift"),
        "job slower by 1.8 for a while": Setting(whole_job="step"),
        "job slower by 1.8, onsets differ by up to 5": Setting(whole_job="staggered"),
        "job slower by 1.5 permanently": Setting(whole_job="for good"),
        "job slower for a while, repeated for 4 samples": Setting(whole_job="step", hold=4),
        "job slower for a while, repeated for 12 samples": Setting(whole_job="step", hold=12),
    }
    for name, setting in settings.items():
        cells = [
            max(
                false_alarms(
                    replace(setting, n_workers=n_workers, cv=cv), n_jobs=600 // n_workers * 2
                )
                for cv in (0.01, 0.05, 0.1, 0.2)
            )
            for n_workers in (2, 3, 10, 32)
        ]
        yield [name, *(text(cell, 3) for cell in cells)]


def false_alarm_table() -> str:
    """Settings with alarms as rows; the others are named below the table."""
    rows = list(false_alarm_rows())
    calm = [name for name, *cells in rows if set(cells) == {"0.000"}]
    head = ["", *(f"{n} workers" for n in (2, 3, 10, 32))]
    alarming = (row for row in rows if row[0] not in calm)
    return f"{table(head, alarming)}\n\nNo false alarm in: {'; '.join(calm)}."


LENGTHS = (3, 5, 10, 20, 50, 100)


def main() -> None:
    tables = {
        "recall": recall_table(),
        "settings": setting_table(),
        "false alarms": false_alarm_table(),
    }
    page = PAGE.read_text("utf-8")
    for name, content in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{content}\n\n{end}{rest.split(end)[1]}"
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
