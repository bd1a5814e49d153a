"""How training went: worker times, their variation, plans, runs and the power they drew."""

from __future__ import annotations

import dataframely as dy
import polars as pl

from traceana.schema.columns import clock, identifier, measure, not_before, seconds, text, whole


class WorkerSamples(dy.Schema):
    """Mini-batch time of each worker of a synchronous job, at a time or in a training step."""

    job_id = identifier("job, as published")
    worker_id = text("worker within its job", privacy="rank")
    time_s = clock("time since the job began, or Unix time")
    step = whole("training step", unit="index", nullable=True, minimum=0)
    host = identifier("machine it ran on", nullable=True)
    gpus = measure(
        "GPUs requested per worker; a fraction of one is below 1", unit="GPUs", nullable=True
    )
    batch_time = measure("mini-batch time; a manifest states where it is relative", unit="s")

    @dy.rule()
    def time_or_step(cls) -> pl.Expr:
        """A sample has a time or a step."""
        return cls.time_s.col.is_not_null() | cls.step.col.is_not_null()


class Operations(dy.Schema):
    """Operations of a training job: what each worker did in a step, and when."""

    job_id = identifier("job, as published")
    step = whole("training step", unit="index", minimum=0)
    worker_id = text("worker within its job", privacy="rank")
    dp_rank = whole("data-parallel rank of the worker", unit="index", nullable=True, minimum=0)
    stage = whole("pipeline stage of the worker", unit="index", nullable=True, minimum=0)
    kind = text("kind of operation, such as forward-compute or params-all-gather")
    start_s = clock("start, since the step began, or on the source's clock")
    duration_s = seconds("time from start to end, with waiting for others", nullable=False)
    sequence = whole(
        "order among the operations of its kind, worker and step",
        unit="index",
        nullable=True,
        minimum=0,
    )
    micro_batch = whole("micro-batch of the step", unit="index", nullable=True, minimum=0)
    chunk = whole("chunk of the stage's model", unit="index", nullable=True, minimum=0)
    global_chunk = whole("chunk of the whole model", unit="index", nullable=True, minimum=0)


class CovSamples(dy.Schema):
    """Published coefficient of variation of mini-batch time across the workers of a job."""

    job_id = identifier("job, as published", key=True)
    sample_index = whole("index of the sample", key=True, minimum=0, name="sample")
    time_s = measure("time since the job began", unit="s", nullable=True)
    cov = measure("standard deviation over mean of the workers' mini-batch time", unit="1")


class TrainingPlans(dy.Schema):
    """What the publishers GENERATED for each job (not observed): model, work and deadline."""

    job_id = identifier("job, as published", key=True)
    cluster = identifier("cluster, or 195job for the testbed's list", key=True)
    model = text("model assigned to the job")
    batch_size = whole("global mini-batch size", unit="samples")
    iterations = whole("iterations to run", unit="iterations")
    deadline_s = clock("deadline on the trace's clock", nullable=False)


class TrainingRuns(dy.Schema):
    """Epoch at which a training run first reached a target; one row per run and target."""

    dataset = text("data set", key=True)
    network = text("model", key=True)
    batch_size = whole("global mini-batch size", unit="samples", key=True)
    optimizer = text("optimizer", key=True)
    learning_rate = measure("initial learning rate", unit="1", key=True, positive=True)
    run = whole("repetition, with a seed of its own", unit="index", key=True)
    target_metric = measure(
        "validation metric to reach (librispeech: word error rate, lower is harder)",
        unit="the data set's metric",
        key=True,
    )
    target_epoch = whole(
        "first epoch that reached the target; null: never reached, which is an outcome",
        unit="epochs",
        nullable=True,
    )


class PowerProfiles(dy.Schema):
    """Time and power of one epoch at a GPU power limit, measured once."""

    gpu = text("GPU, from the file's name", key=True)
    dataset = text("data set", key=True)
    network = text("model", key=True)
    batch_size = whole("global mini-batch size", unit="samples", key=True)
    optimizer = text("optimizer", key=True)
    power_limit_w = measure("power limit set on the GPU", unit="W", key=True, positive=True)
    epoch_s = measure("time of one training epoch", unit="s", positive=True)
    mean_power_w = measure(
        "mean power over the epoch; may exceed the limit", unit="W", positive=True
    )


class RecurringJobs(dy.Schema):
    """Jobs of recurring groups with the workload each group was mapped to."""

    group = identifier("group of recurring jobs, as published")
    start_s = clock("start", nullable=False)
    end_s = clock("end", nullable=False)
    dataset = text("data set whose workload represents the group")
    runtime_ratio = measure("runtime over the mean runtime of all jobs with its data set", unit="1")

    end_not_before_start = not_before("end_s", "start_s")
