"""Plans of elastic jobs until they end: the loops of ElasticFlow, compiled where it pays.

A plan is a list of steps (time, level): the job holds the GPUs of a level until the next step,
level 0 being none. The free GPUs of the cluster are a list of steps (time, GPUs), the last without
an end. All times of one decision are whole slots after it. The loops run on lists, or on arrays
when they are compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from traceana.simulate.schedule.compiled import Compiled

NEVER: Final = 1e300
_STEPS_PER_JOB: Final = 6


class Problem(NamedTuple):
    """A decision: time, slot, GPUs, and the jobs in order of deadline, a row of rates each.

    `stop`: plan up to the first job that misses its deadline. `aligned`: ends of deadlines' slots.
    """

    now: float
    slot: float
    gpus: int
    least: bool
    stop: bool
    deadline: Any
    aligned: Any
    rates: Any
    sizes: Any
    top: Any


class Steps(NamedTuple):
    """Free GPUs from each time on; `used[0]` steps are in use."""

    times: Any
    free: Any
    used: Any


class Plans(NamedTuple):
    """A row per job, and one to try a plan; `order` are the jobs by their marginal return."""

    times: Any
    levels: Any
    used: Any
    work: Any
    end: Any
    exact: Any
    met: Any
    fits: Any
    seconds: Any
    gain: Any
    spent: Any
    first: Any
    reach: Any
    beside: Any
    missing: Any
    order: Any


class Room:
    """Lists or arrays for the plans of one decision; lists are used again by the next."""

    def __init__(self) -> None:
        self._times: list[list[float]] = []
        self._levels: list[list[int]] = []

    def steps(self, jobs: int, /, *, arrays: bool) -> Steps:
        """Return an empty list of steps."""
        room = _most_steps(jobs)
        if arrays:
            return Steps(np.empty(room), np.empty(room, dtype=np.int64), np.zeros(1, np.int64))
        return Steps([0.0] * room, [0] * room, [0])

    def plans(self, work: list[float], levels: int, /, *, arrays: bool) -> Plans:
        """Return empty plans for jobs with this work left."""
        jobs, room = len(work), _most_steps(len(work))
        rest: list[Any] = [
            [0] * (2 * jobs),
            [*work, *work],
            [0.0] * (2 * jobs),
            [0.0] * (2 * jobs),
            [False] * (2 * jobs),
            [0] * room,
            [0.0] * levels,
            [-NEVER] * jobs,
            [0.0] * (2 * jobs),
            [-NEVER] * jobs,
            [NEVER] * jobs,
            [0] * jobs,
            [0] * jobs,
            list(range(jobs)),
        ]
        if arrays:
            chosen = np.zeros((2 * jobs, room), dtype=np.int64)
            return Plans(np.empty((2 * jobs, room)), chosen, *map(np.array, rest))
        if len(self._times) < 2 * jobs:
            self._times = [[0.0] * (2 * room) for _ in range(3 * jobs)]
            self._levels = [[0] * (2 * room) for _ in range(3 * jobs)]
        for row in self._levels[:jobs]:
            row[0] = 0
        return Plans(self._times, self._levels, *rest)


def _most_steps(jobs: int) -> int:
    return _STEPS_PER_JOB * jobs + 32


def align(start: float, at: float, slot: float) -> float:
    """Return the end of the slot of a time."""
    if at >= NEVER:  # more slots than an integer can count
        return at
    return start + math.ceil((at - start) / slot) * slot


def _fit(sizes: Sequence[int], top: int, free: int) -> int:
    """Return the highest level that fits free GPUs."""
    level = top
    while level and sizes[level] > free:
        level -= 1
    return level


def _search(times: Sequence[float], n: int, at: float) -> int:
    """Return the first of n times at or after a time."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if times[middle] < at:
            low = middle + 1
        else:
            high = middle
    return low


def _insert(steps: Steps, at: float, value: int) -> None:
    """Insert a step unless there is one at this time."""
    times, free, n = steps.times, steps.free, steps.used[0]
    place = _search(times, n, at)
    if place < n and times[place] == at:
        return
    for step in range(n, place, -1):
        times[step], free[step] = times[step - 1], free[step - 1]
    times[place], free[place] = at, value
    steps.used[0] = n + 1


def _merge(steps: Steps) -> None:
    """Remove steps that change nothing."""
    times, free, kept = steps.times, steps.free, 0
    for step in range(1, steps.used[0]):
        if free[step] != free[kept]:
            kept += 1
            times[kept], free[kept] = times[step], free[step]
    steps.used[0] = kept + 1


def _hold(problem: Problem, job: int, steps: Steps, plans: Plans, row: int) -> None:
    """Take the GPUs of a plan, whose times are those of steps, from the free ones."""
    times, free, sizes, end = steps.times, steps.free, problem.sizes[job], plans.end[row]
    _insert(steps, end, free[_search(times, steps.used[0], end) - 1])
    plan_times, plan_levels, m, at = plans.times[row], plans.levels[row], plans.used[row], -1
    for step in range(steps.used[0]):
        if at + 1 < m and plan_times[at + 1] == times[step]:
            at += 1  # also where the plan ends at once: it holds its GPUs until the next step
        elif times[step] >= end:
            break
        free[step] -= sizes[plan_levels[at]]
    _merge(steps)


def _plan_greedily(problem: Problem, job: int, steps: Steps, plans: Plans) -> None:
    """Give a job the highest level that fits at each step until it ends."""
    now, slot = problem.now, problem.slot
    deadline = problem.deadline[job] if problem.least else NEVER
    aligned = problem.aligned[job] if problem.least else NEVER
    if now < aligned < NEVER:
        before = steps.free[_search(steps.times, steps.used[0], aligned) - 1]
        _insert(steps, aligned, before)
    left = plans.work[job]
    sizes, rates, top = problem.sizes[job], problem.rates[job], problem.top[job]
    plans.used[job] = 0
    for step in range(steps.used[0]):
        start, level = steps.times[step], _fit(sizes, top, steps.free[step])
        plans.times[job][plans.used[job]] = start
        plans.levels[job][plans.used[job]] = level
        plans.used[job] += 1
        if not level:
            continue
        until = steps.times[step + 1] if step + 1 < steps.used[0] else NEVER
        if until == aligned:
            until = deadline
        if (until - start) * rates[level] >= left:
            plans.exact[job] = math.ceil(start + left / rates[level])
            plans.end[job] = align(now, plans.exact[job], slot)
            break
        left -= (until - start) * rates[level]
    _hold(problem, job, steps, plans, job)


def _least_level(
    problem: Problem, job: int, steps: Steps, plans: Plans, row: int
) -> tuple[int, int, int]:
    """Return the least level that meets the deadline, or 0, and the step from which it suffices.

    Return also the first step after the deadline's slot, and note the levels that fit.
    """
    sizes, rates, top = problem.sizes[job], problem.rates[job], problem.top[job]
    times, free, fits, seconds = steps.times, steps.free, plans.fits, plans.seconds
    above, done, work, deadline = 0.0, 0.0, plans.work[row], problem.deadline[job]
    last = _search(times, steps.used[0], problem.aligned[job])
    for level in range(top + 1):
        seconds[level] = 0.0
    for step in range(plans.used[row], last):
        level, gpus = top, free[step]
        while sizes[level] > gpus:
            level -= 1
        fits[step] = level
        until = times[step + 1] if step + 1 < last else deadline
        seconds[level] += until - times[step]
    for level in range(1, top + 1):
        above += seconds[level]
    for level in range(1, top + 1):
        if done + above * rates[level] >= work:
            break
        done += seconds[level] * rates[level]
        above -= seconds[level]
    else:
        return 0, last, last
    step, until, done = last, deadline, 0.0
    while done < work and step > plans.used[row]:
        step -= 1
        fit = fits[step]
        done += (until - times[step]) * rates[fit if fit < level else level]
        until = times[step]
    return level, step, last


def _plan_least(problem: Problem, job: int, steps: Steps, plans: Plans, row: int) -> bool:
    """Plan the least level that meets the deadline, from the first step without a plan on.

    The job has this level as late as suffices, and the level below before.
    """
    times, deadline = steps.times, problem.deadline[job]
    most, point, last = _least_level(problem, job, steps, plans, row)
    if not most:
        return False
    fits, rates, sizes = plans.fits, problem.rates[job], problem.sizes[job]
    plan_times, plan_levels, first = plans.times[row], plans.levels[row], plans.used[row]
    left, m, most = plans.work[row], first, most - 1
    spent = sizes[plan_levels[0]] * (times[first] - times[0])
    for step in range(first, last):
        if step == point:
            most += 1
        start, level = times[step], fits[step] if fits[step] < most else most
        until = times[step + 1] if step + 1 < last else deadline
        done = (until - start) * rates[level]
        ends = level > 0 and (done >= left or step == last - 1)
        if ends or not m or level != plan_levels[m - 1]:
            plan_times[m], plan_levels[m] = start, level
            m += 1
        if ends:
            needed = math.ceil(left / rates[level])
            plans.exact[row] = start + needed
            plans.end[row] = start + align(0.0, needed, problem.slot)
            if step == last - 1:
                until = plans.end[row]
        left -= done
        spent += sizes[level] * (until - start)
        if ends:
            break
    if first < last:
        plans.used[row], plans.spent[row] = m, spent
    return True


def _without(problem: Problem, job: int, steps: Steps, plans: Plans, out: Steps) -> None:
    """Write the free GPUs without a job's plan."""
    times, free, n, sizes = steps.times, steps.free, steps.used[0], problem.sizes[job]
    plan_times, plan_levels, m = plans.times[job], plans.levels[job], plans.used[job]
    out_times, out_free, end, following = out.times, out.free, plans.end[job], times[0]
    count, step, nth, held, before = 0, 0, 0, 0, -1
    change = min(plan_times[0], end)
    while change < NEVER:
        at = following if following < change else change
        if following == at:
            step += 1
            following = times[step] if step < n else NEVER
        if change == at and at == end:
            held, change = 0, NEVER
        elif change == at:
            held = sizes[plan_levels[nth]]
            nth += 1
            change = plan_times[nth] if nth < m and plan_times[nth] < end else end
        now_free = free[step - 1] + held
        if now_free != before:
            out_times[count], out_free[count] = at, now_free
            count += 1
            before = now_free
    out.used[0] = used = count + n - step
    out_times[count:used], out_free[count:used] = times[step:n], free[step:n]


def _scale_up(problem: Problem, job: int, steps: Steps, plans: Plans, out: Steps) -> float:
    """Plan a job in its second row: a level more until the first step, then its least share.

    Return the time up to which the plan depends on the free GPUs.
    """
    row, now = len(problem.deadline) + job, problem.now
    deadline: float = problem.deadline[job]
    aligned: float = problem.aligned[job]
    _without(problem, job, steps, plans, out)
    up = plans.levels[job][0] + 1
    rate = problem.rates[job][up]
    first: float = min(out.times[1], aligned) if out.used[0] > 1 else aligned
    plans.exact[row] = math.ceil(now + plans.work[job] / rate)
    plans.end[row] = align(now, plans.exact[row], problem.slot)
    plans.times[row][0], plans.levels[row][0], plans.used[row] = now, up, 1
    plans.spent[row] = problem.sizes[job][up] * (plans.end[row] - now)
    if first >= plans.end[row] and deadline >= plans.exact[row]:
        return first
    ran = (deadline if first == aligned else first) - now
    plans.work[row] = plans.work[job] - ran * rate
    _plan_least(problem, job, out, plans, row)
    # without a deadline, the rest of the work is planned after all other jobs
    return deadline if deadline < NEVER else first


def _plan_all(problem: Problem, steps: Steps, plans: Plans) -> None:
    """Plan jobs one after the other, with their least share or as many GPUs as possible."""
    steps.times[0], steps.free[0], steps.used[0] = problem.now, problem.gpus, 1
    for job in range(len(problem.deadline)):
        plans.used[job] = 0
        if problem.least and problem.deadline[job] > problem.now:
            plans.met[job] = _plan_least(problem, job, steps, plans, job)
            if plans.met[job]:
                _hold(problem, job, steps, plans, job)
        if not plans.met[job]:
            if problem.stop and problem.least:
                return
            _plan_greedily(problem, job, steps, plans)
            if not problem.least:
                plans.met[job] = plans.exact[job] <= problem.deadline[job]
                if problem.stop and not plans.met[job]:
                    return


def _missing(problem: Problem, job: int, plans: Plans) -> int:
    """Return the GPUs that a job needs for its next level, or more than there are."""
    level = plans.levels[job][0]
    if level == problem.top[job] or not plans.met[job]:
        return problem.gpus + 1
    gpus: int = problem.sizes[job][level + 1] - problem.sizes[job][level]
    return gpus


def _same_until(steps: Steps, other: Steps) -> float:
    """Return the time up to which steps are the same, the first one apart."""
    n, m, step = steps.used[0], other.used[0], 1
    while step < min(n, m) and steps.times[step] == other.times[step]:
        if steps.free[step] != other.free[step]:
            break
        step += 1
    return min(steps.times[step] if step < n else NEVER, other.times[step] if step < m else NEVER)


def _find_returns(problem: Problem, steps: Steps, plans: Plans, out: Steps, same: float) -> None:
    """Find the marginal returns; up to a time only the first step has changed."""
    jobs, gain, first, reach = len(problem.deadline), plans.gain, plans.first, plans.reach
    for job in range(jobs):
        level, missing = plans.levels[job][0], plans.missing[job]
        if missing > problem.gpus:
            continue
        if missing > steps.free[0]:
            gain[job] = -NEVER
        elif level == 0:
            gain[job] = NEVER
        elif (
            reach[job] >= same
            or first[job] != steps.times[1]
            or plans.beside[job] == steps.free[0] + problem.sizes[job][level]
        ):  # else all that its return depends on is as before
            reach[job] = _scale_up(problem, job, steps, plans, out)
            gain[job] = (plans.spent[jobs + job] - plans.spent[job]) / missing
            first[job] = out.times[1] if out.used[0] > 1 else -NEVER
            plans.beside[job] = out.free[1]


def _spread_free(problem: Problem, steps: Steps, plans: Plans, out: Steps) -> None:
    """Give free GPUs away level by level to the job of the largest return; sort the jobs by it."""
    jobs, same = len(problem.deadline), problem.now
    gain, order = plans.gain, plans.order
    for job in range(jobs):
        plans.missing[job] = _missing(problem, job, plans)
    spreads = steps.free[0] > 0
    while spreads:  # once more when no GPU is free: the last sort orders the placement
        _find_returns(problem, steps, plans, out, same)
        for nth in range(1, jobs):  # in order but for the jobs whose return has changed
            job, place = order[nth], nth
            while place and gain[order[place - 1]] < gain[job]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = job
        chosen = -1
        for job in order:
            if plans.missing[job] <= steps.free[0]:
                chosen = job
                break
        spreads = chosen >= 0
        if not spreads:
            break
        row = jobs + chosen
        if plans.levels[chosen][0] and problem.deadline[chosen] < NEVER:
            _without(problem, chosen, steps, plans, out)
        else:  # its plan depends on GPUs that others have got since
            _scale_up(problem, chosen, steps, plans, out)
        _hold(problem, chosen, out, plans, row)
        same = _same_until(steps, out)
        n, m = out.used[0], plans.used[row]
        steps.used[0], plans.used[chosen] = n, m
        steps.times[:n], steps.free[:n] = out.times[:n], out.free[:n]
        plans.times[chosen][:m] = plans.times[row][:m]
        plans.levels[chosen][:m] = plans.levels[row][:m]
        plans.end[chosen], plans.spent[chosen] = plans.end[row], plans.spent[row]
        plans.missing[chosen] = _missing(problem, chosen, plans)
        plans.first[chosen] = -NEVER


def _first_change(problem: Problem, plans: Plans) -> float:
    """Return when the level of a plan changes first, if no job ends before; else NEVER."""
    change, end = NEVER, NEVER
    for job in range(len(problem.deadline)):
        times, levels = plans.times[job], plans.levels[job]
        end = min(end, plans.end[job])
        for step in range(1, plans.used[job]):
            if levels[step] != levels[0]:
                change = min(change, times[step])
                break
    return change if change < end else NEVER


@Compiled
def plan_jobs(problem: Problem, steps: Steps, plans: Plans, out: Steps) -> float:
    """Plan jobs, give free GPUs away where least shares are planned; return the first change."""
    _plan_all(problem, steps, plans)
    if problem.stop:
        return NEVER
    if problem.least:
        _spread_free(problem, steps, plans, out)
    return _first_change(problem, plans)
