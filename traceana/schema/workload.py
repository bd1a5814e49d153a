"""Tables of what ran on which machines, and of how training went."""

from __future__ import annotations

import dataframely as dy
import polars as pl

from traceana.schema.columns import (
    clock,
    identifier,
    measure,
    not_before,
    number,
    seconds,
    status,
    text,
    whole,
)


class Jobs(dy.Schema):
    """Jobs as submitted; a column is null throughout where a trace does not have it."""

    job_id = identifier("job, as published", key=True)
    inst_id = identifier("the publisher's second name of the job (PAI)", nullable=True)
    cluster = identifier("cluster that the job was submitted to", nullable=True)
    user = identifier("user who submitted the job, anonymized", nullable=True)
    group = identifier("tag shared by recurrences of a job", nullable=True)
    workload = text("observed kind of model or application", nullable=True)
    status = status("how the job stood at its last record")
    submit_s = clock("submission")
    start_s = clock("start of execution")
    end_s = clock("end of execution, or removal of a job that never started")
    runtime_s = seconds("time in execution, as published or end minus start")
    gpus = measure("GPUs requested; a fraction of a GPU is below 1", unit="GPUs", nullable=True)
    cpus = measure("CPU cores requested", unit="cores", nullable=True)
    memory_gib = measure("main memory requested", unit="GiB", nullable=True)
    gpu_type = text("GPU type requested", nullable=True)
    qos = text("quality-of-service class", nullable=True)
    job_name = text("name that its user gave it", nullable=True, privacy="name")
    account = identifier("account or project that is charged", nullable=True)
    queue = identifier("queue or partition", nullable=True)
    nodes = whole("nodes requested", nullable=True, minimum=0)
    priority = number("scheduling priority", unit="the source's", nullable=True)
    time_limit_s = seconds("requested time limit")
    end_reason = text("how it ended, in the source's own words", nullable=True, privacy="reason")
    exit_code = text("exit code, as published", nullable=True)
    array_id = identifier("job array that it belongs to", nullable=True)
    restarts = whole("restarts after failure or preemption", nullable=True, minimum=0)
    cpu_time_s = seconds("CPU time used")
    memory_gib_used = measure("largest main memory used", unit="GiB", nullable=True)
    gpu_utilization = measure("mean GPU utilization, a fraction", unit="1", nullable=True)
    energy_j = measure("energy used", unit="J", nullable=True)

    end_not_before_start = not_before("end_s", "start_s")
    start_not_before_submission = not_before("start_s", "submit_s")
    end_not_before_submission = not_before("end_s", "submit_s")


class Tasks(dy.Schema):
    """Tasks of a job: one row per role (worker, parameter server, evaluator, ...)."""

    job_id = identifier("job, as published", key=True)
    task_name = text("role of the task within its job", key=True)
    instances = whole("instances requested", nullable=True, minimum=0)
    status = status("how the task stood at its last record")
    start_s = clock("launch of the task")
    end_s = clock("end of the task; null where the publisher lost it")
    cpus = measure("CPU cores requested per instance", unit="cores", nullable=True)
    memory_gib = measure("main memory requested per instance", unit="GiB", nullable=True)
    gpus = measure(
        "GPUs requested per instance; a fraction of a GPU is below 1", unit="GPUs", nullable=True
    )
    gpu_type = text("type of the GPUs assigned", nullable=True)

    end_not_before_start = not_before("end_s", "start_s")


class Instances(dy.Schema):
    """Instances (processes on a machine) of a task; the publisher's rows are not unique."""

    job_id = identifier("job, as published")
    task_name = text("role of the task within its job", nullable=True)
    instance_id = identifier("instance within its task", nullable=True)
    worker_id = identifier("instance, key to its usage", nullable=True)
    inst_id = identifier("the publisher's second name of the job", nullable=True)
    status = status("how the instance stood at its last record")
    start_s = clock("launch of the instance")
    end_s = clock("end of the instance; null where the publisher lost it")
    machine_id = identifier("machine it ran on", nullable=True)

    end_not_before_start = not_before("end_s", "start_s")


class InstanceUsage(dy.Schema):
    """What an instance used, averaged over its life; the publisher's rows are not unique."""

    job_id = identifier("job, as published", nullable=True)
    task_name = text("role of the task within its job", nullable=True)
    worker_id = identifier("instance", nullable=True)
    inst_id = identifier("the publisher's second name of the job", nullable=True)
    machine_id = identifier("machine it ran on", nullable=True)
    gpu_device = text("device file of the GPU on its machine", nullable=True)
    cpus_used = measure("CPU cores used, mean", unit="cores", nullable=True)
    gpus_used = measure("GPUs used, mean; may exceed the request", unit="GPUs", nullable=True)
    memory_gib_mean = measure("main memory used, mean", unit="GiB", nullable=True)
    memory_gib_max = measure("main memory used, largest", unit="GiB", nullable=True)
    gpu_memory_gib_mean = measure("GPU memory used, mean", unit="GiB", nullable=True)
    gpu_memory_gib_max = measure("GPU memory used, largest", unit="GiB", nullable=True)
    read_bytes = measure("network input, mean", unit="bytes", nullable=True)
    write_bytes = measure("network output, mean", unit="bytes", nullable=True)
    read_count = measure("network reads, mean", unit="count", nullable=True)
    write_count = measure("network writes, mean", unit="count", nullable=True)


class JobTags(dy.Schema):
    """Tags of jobs at submission; the publisher's rows are not unique."""

    inst_id = identifier("the publisher's second name of the job")
    user = identifier("user who submitted the job, anonymized", nullable=True)
    gpu_type_requested = text("GPU type requested; null where any will do", nullable=True)
    group = identifier("tag shared by jobs with alike inputs (recurrences)", nullable=True)
    workload = text("kind of model, for the few jobs where it was studied", nullable=True)


class Machines(dy.Schema):
    """Machines and what they hold."""

    machine_id = identifier("machine, as published", key=True)
    gpu_type = text("type of its GPUs; null where it has none", nullable=True)
    gpus = measure("GPUs", unit="GPUs")
    cpus = measure("CPU cores", unit="cores", nullable=True)
    memory_gib = measure("main memory", unit="GiB", nullable=True)


class MachineUsage(dy.Schema):
    """A machine's state averaged over an instance's life; the publisher's rows are not unique."""

    worker_id = identifier("instance over whose life was averaged", nullable=True)
    machine_id = identifier("machine", nullable=True)
    start_s = clock("launch of the instance")
    end_s = clock("end of the instance")
    cpu_iowait = measure("CPU time waiting for input and output", unit="%", nullable=True)
    cpu_kernel = measure("CPU time in the kernel", unit="%", nullable=True)
    cpu_usr = measure("CPU time in user programs", unit="%", nullable=True)
    gpu = measure("GPU use over all GPUs; may exceed 100", unit="%", nullable=True)
    load_1 = measure("load average over one minute", unit="processes", nullable=True)
    net_receive = measure("network bytes received", unit="bytes", nullable=True)
    num_worker = measure("instances on the machine at once", unit="instances", nullable=True)
    cpu = measure("CPU use", unit="%", nullable=True)

    end_not_before_start = not_before("end_s", "start_s")


class GpuSamples(dy.Schema):
    """State of a GPU at a time, as a monitor of the machine samples it."""

    machine_id = identifier("machine")
    gpu = text("GPU of the machine: its number, or its id", privacy="rank")
    time_s = clock("time of the sample", nullable=False)
    utilization = measure(
        "time in which a kernel ran, a fraction of the sampling interval", unit="1", nullable=True
    )
    memory_gib = measure("GPU memory in use", unit="GiB", nullable=True)
    power_w = measure("power drawn", unit="W", nullable=True)
    job_id = identifier("job on the GPU, where the monitor records it", nullable=True)


class Faults(dy.Schema):
    """Faults of machines: from the failure to the end of the repair, or single events."""

    machine_id = identifier("machine that failed")
    start_s = clock("beginning of the fault", nullable=False)
    end_s = clock("end of the repair; null: not ended when the log ends, or not recorded")
    downtime_s = seconds("time until the repair, as published or end minus start")
    class_ = text("component or cause, as published", nullable=True, name="class")
    description = text("what failed, in the words of the source", nullable=True, privacy="reason")
    level = text("category above the class, such as hardware", nullable=True)

    end_not_before_start = not_before("end_s", "start_s")


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
