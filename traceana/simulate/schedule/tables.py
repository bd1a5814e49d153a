"""Tables of simulated schedules."""

from __future__ import annotations

from traceana.tables.declare import (
    ResultTable,
    any_key,
    clock,
    count,
    flag,
    fraction,
    number,
    seconds,
    text,
)

_GROUP = "value of the grouping column, or all"


class ScheduledJob(ResultTable):
    """Start and end of each job under a policy."""

    job_id = any_key("Job")
    group = text("Group", _GROUP)
    start_s = clock("Start", "first start; null if the job never ran")
    end_s = clock("End", "null if the job never ended")
    wait_s = seconds("Wait", "from submission to first start")
    met_deadline = flag("Met", "ended by its deadline; null without a deadline")


class ScheduleGroups(ResultTable):
    """Outcome of a policy by group of jobs."""

    policy = text("Policy")
    group = text("Group", _GROUP)
    gpus = number("GPUs", "GPUs of the simulated cluster", display="plain", unit="GPUs")
    capacity = text("Capacity", "where the number of GPUs comes from")
    jobs = count("Jobs", "jobs with a submission, a runtime and GPUs")
    n_excluded = count("Excluded", "jobs with a null, or without GPUs")
    n_too_large = count("Too large", "jobs that request more GPUs than there are")
    n_declined = count("Declined", "jobs that the policy declined")
    n_ended = count("Ended")
    n_deadlines = count("Deadlines")
    fraction_met = fraction("Deadlines met", "of all jobs with a deadline; null without deadlines")
    wait_s_mean = seconds("Mean wait", "from submission to first start, of the jobs that started")
    wait_s_ci_low = seconds("Low", "of the mean wait: 2.5 % quantile of the replications, or null")
    wait_s_ci_high = seconds("High", "97.5 % quantile")
    wait_s_median = seconds("Median wait")
    wait_s_p95 = seconds("95 % wait", "quantile")
    wait_s_recorded = seconds(
        "Recorded median wait", "of the log; null without start times or with another load"
    )
    completion_s_mean = seconds("Mean completion time", "from submission to end")
    slowdown_mean = number(
        "Mean slowdown", "completion time over runtime, the runtime at least 10 s"
    )
    fairness = number(
        "Fairness",
        "Jain's index of the mean slowdown of the users, 1 if equal; null without users",
        display="ratio",
    )
    utilization = fraction("Utilization", "of GPU time from the first submission to the last end")


class ScheduleSteps(ResultTable):
    """Use of the cluster over time."""

    group = text("Group", _GROUP)
    time_s = clock("Time")
    gpus_used = number("GPUs used", "from this time on", display="plain", unit="GPUs")
    jobs_running = count("Running")
    jobs_waiting = count("Waiting")
