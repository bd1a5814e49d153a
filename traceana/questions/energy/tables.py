"""Tables of energy to accuracy: configurations, coverage, savings and batch-size sweeps."""

from __future__ import annotations

from traceana.tables.declare import (
    ResultTable,
    count,
    flag,
    fraction,
    interval,
    joules,
    number,
    seconds,
    text,
)


class EnergyToAccuracy(ResultTable):
    """Time, energy and cost to the target of each configuration."""

    batch_size = count("Batch size", unit="samples")
    power_limit_w = number("Power limit (W)", display="plain", unit="W")
    tta_s = seconds("Time", "time to the target: epochs_mean * epoch_s")
    eta_j = joules("Energy", "energy to the target")
    cost_j = joules("Cost", "eta * eta_j + (1 - eta) * max_power * tta_s")
    on_front = flag("On the Pareto front", "no other configuration is as good in both and better")
    runs = count("Runs", "training runs of the batch size")
    epochs_mean = number("Mean epochs", "over the runs", unit="epochs")
    epochs_std = number("Standard deviation", "of the epochs (ddof 1)", unit="epochs")
    epochs_min = count("Minimum epochs", "over the runs", unit="epochs")
    epochs_max = count("Maximum epochs", "over the runs", unit="epochs")
    epoch_s = seconds("Epoch", "time of an epoch, measured once")
    mean_power_w = number("Mean power (W)", "of an epoch, measured once", unit="W")


class EnergyCoverage(ResultTable):
    """Batch sizes of a GPU and data set, and why some are not feasible."""

    gpu = text("GPU")
    dataset = text("Data set")
    target = number("Target", "validation metric to reach", display="plain")
    network = text("Network")
    optimizer = text("Optimizer")
    batch_size = count("Batch size", unit="samples")
    runs = count("Runs", "training runs")
    runs_reached = count("Runs at the target", "runs that reached the target")
    runs_unknown = count("Runs without the target", "runs without a row at the target")
    power_limits = count("Power limits", "power limits profiled")
    power_limits_missing = count("Power limits missing", "of those profiled at any batch size")
    feasible = flag("Feasible", "every run reached the target, and an epoch was measured")
    note = text("Note", "the first reason why it is not feasible")


class CoverageCounts(ResultTable):
    """Batch sizes of each GPU and data set, by feasibility."""

    gpu = text("GPU")
    dataset = text("Data set")
    feasible = count("Feasible")
    gaps = count("with gaps")
    missed = count("Excluded: a run never reached the target")
    unknown = count("Excluded: a run has no row at the target")
    trained = count("Excluded: trained only")
    profiled = count("Excluded: profiled only")
    min_runs = count("Minimum runs")


class EnergySavings(ResultTable):
    """Energy or cost of the best configurations relative to the baseline."""

    gpu = text("GPU")
    dataset = text("Data set")
    target = number("Target", "validation metric to reach", display="plain")
    objective = text("Objective", "energy or cost")
    choice = text("Choice", "baseline, batch_size, power_limit or both")
    batch_size = count("Batch size", unit="samples")
    power_limit_w = number("Power limit (W)", display="plain", unit="W")
    tta_s = seconds("Time", "time to the target")
    eta_j = joules("Energy", "energy to the target")
    cost_j = joules("Cost")
    ratio = number("Ratio", "objective over that of the baseline", display="ratio")
    ratio_held_out = number(
        "Held-out ratio",
        "ratio of runs that did not choose the batch size, at a power limit that the others chose",
        display="ratio",
    )
    ci_low, ci_high = interval("95 % interval", "of the held-out ratio", display="ratio")
    runs = count("Runs", "training runs of the batch size chosen")
    note = text("Note", "why numbers or intervals are null, or the default batch size was reduced")


class SavingsByChoice(ResultTable):
    """Savings of each choice against the baseline, one row per GPU and data set."""

    gpu = text("GPU")
    dataset = text("Data set")
    default = text("Default")
    batch_size = fraction("Batch size only")
    power_limit = fraction("Power limit only")
    both = fraction("Both")
    held_out = fraction("Both, held-out runs")
    ci_low, ci_high = interval("95 % interval", "", display="percent")
    best = text("Best")
    note = text("Note")


class BatchSizeSweep(ResultTable):
    """Energy and time of each batch size, at the best and the largest power limit."""

    limit = text("Power limit", "best (least energy) or largest")
    batch_size = count("Batch size", unit="samples")
    power_limit_w = number("Power limit (W)", display="plain", unit="W")
    tta_s = seconds("Time", "mean over the runs")
    tta_low_s = seconds("Minimum time", "of the run with the fewest epochs")
    tta_high_s = seconds("Maximum time", "of the run with the most epochs")
    eta_j = joules("Energy", "mean over the runs")
    eta_low_j = joules("Minimum energy", "of the run with the fewest epochs")
    eta_high_j = joules("Maximum energy", "of the run with the most epochs")
    runs = count("Runs")


class EtaSweep(ResultTable):
    """The configuration of least cost for each weight of energy versus time."""

    eta = number("Weight of energy", "0: time alone, 1: energy alone", display="plain")
    batch_size = count("Batch size", unit="samples")
    power_limit_w = number("Power limit (W)", display="plain", unit="W")
    tta_s = seconds("Time", "time to the target")
    eta_j = joules("Energy", "energy to the target")
    cost_j = joules("Cost", "eta * eta_j + (1 - eta) * max_power * tta_s")
    energy_saved = fraction("Energy saved", "relative to the default")
    time_saved = fraction("Time saved", "relative to the default; negative: takes longer")
