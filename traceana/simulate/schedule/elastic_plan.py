"""Plans of elastic jobs until their deadlines: the loops of ElasticFlow and of earliest deadline.

A plan is a list of steps (time, level): the job holds the GPUs of a level from a time to the next
step, level 0 being none. The free GPUs of the cluster are a list of steps (time, GPUs), the last
without an end. All times of one decision are whole slots after it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.simulate.schedule.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

NEVER: Final = 1e300


@compiled
def _aligned(start: float, at: float, slot: float) -> float:
    return start + math.ceil((at - start) / slot) * slot


@compiled
def _fit(free: int, sizes: Integers, top: int) -> int:
    """Return the highest level that fits free GPUs."""
    level = 0
    while level < top and sizes[level + 1] <= free:
        level += 1
    return level


@compiled
def _search(times: Floats, n: int, at: float) -> int:
    """Return the first step at or after a time."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if times[middle] < at:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _insert(times: Floats, free: Integers, n: int, at: float, value: int) -> int:
    """Insert a step unless there is one at this time; return the number of steps."""
    place = _search(times, n, at)
    if place < n and times[place] == at:
        return n
    for step in range(n, place, -1):
        times[step], free[step] = times[step - 1], free[step - 1]
    times[place], free[place] = at, value
    return n + 1


@compiled
def _merge(times: Floats, free: Integers, n: int) -> int:
    """Remove steps that change nothing; return the number of steps."""
    kept = 0
    for step in range(1, n):
        if free[step] != free[kept]:
            kept += 1
            times[kept], free[kept] = times[step], free[step]
    return kept + 1


@compiled
def plan_greedily(
    times: Floats, free: Integers, n: int, now: float, slot: float,
    left: float, rates: Floats, sizes: Integers, top: int, deadline: float,
    plan_times: Floats, plan_levels: Integers,
) -> tuple[int, int, float, float]:
    """Give a job the highest level that fits at each step until it ends.

    Progress in the part of a slot after the deadline does not count. Returns the number of steps of
    the free GPUs, that of the plan, and its end: of the slot, and to the second.
    """  # fmt: skip
    aligned = _aligned(now, deadline, slot) if deadline < NEVER else NEVER
    if now < aligned < NEVER:
        before = free[_search(times, n, aligned) - 1] if _search(times, n, aligned) else free[0]
        n = _insert(times, free, n, aligned, before)
    m, end, exact = 0, 0.0, 0.0
    for step in range(n):
        level = _fit(free[step], sizes, top)
        plan_times[m], plan_levels[m] = times[step], level
        m += 1
        if not level:
            continue
        until = times[step + 1] if step + 1 < n else NEVER
        if until == aligned:
            until = deadline
        before = free[step]
        free[step] -= sizes[level]
        done = (until - times[step]) * rates[level]
        if done >= left:
            exact = math.ceil(times[step] + left / rates[level])
            end = _aligned(now, exact, slot)
            n = _insert(times, free, n, end, before)
            break
        left -= done
    return _merge(times, free, n), m, end, exact


@compiled
def plan_least(
    times: Floats, free: Integers, n: int, now: float, slot: float,
    left: float, rates: Floats, sizes: Integers, top: int, deadline: float,
    plan_times: Floats, plan_levels: Integers, m: int, first: int, levels: Integers,
) -> tuple[bool, int, int, float, float, float]:
    """Plan the least level that meets the deadline, from step `first` of the free GPUs on.

    The job has at most this level as late as suffices, and at most the level below before that.
    Appends to the m steps of the plan. Returns whether the deadline can be met (else nothing has
    changed), the numbers of steps, the end of the slot, the exact end, and the next step of the
    free GPUs after the end before the deadline (NEVER without one).
    """  # fmt: skip
    steps = _search(times, n, _aligned(now, deadline, slot))
    seconds = np.zeros(top + 1)
    for step in range(first, steps):
        levels[step] = _fit(free[step], sizes, top)
        until = times[step + 1] if step + 1 < steps else deadline
        seconds[levels[step]] += until - times[step]
    above = seconds[1:].sum()
    done, share = 0.0, 0
    for level in range(1, top + 1):
        if done + above * rates[level] >= left:
            share = level
            break
        done += seconds[level] * rates[level]
        above -= seconds[level]
    if not share:
        return False, n, m, 0.0, 0.0, NEVER
    point, done, until = first, 0.0, deadline
    for step in range(steps - 1, first - 1, -1):
        level = min(levels[step], share)
        if level:
            done += (until - times[step]) * rates[level]
            if done >= left:
                point = step
                break
        until = times[step]
    end, exact, following = 0.0, 0.0, NEVER
    for step in range(first, steps):
        level = min(levels[step], share if step >= point else share - 1)
        plan_times[m], plan_levels[m] = times[step], level
        m += 1
        if not level:
            continue
        until = times[step + 1] if step + 1 < steps else deadline
        before = free[step]
        free[step] -= sizes[level]
        done = (until - times[step]) * rates[level]
        if (step >= point and done >= left) or step == steps - 1:
            needed = math.ceil(left / rates[level])
            exact = times[step] + needed
            end = times[step] + _aligned(0.0, needed, slot)
            if step + 1 < steps:
                following = times[step + 1]
            n = _insert(times, free, n, end, before)
            break
        left -= done
    return True, n, m, end, exact, following


@compiled
def _gpu_time(
    plan_times: Floats, plan_levels: Integers, m: int, sizes: Integers, end: float, following: float
) -> float:
    """Return the GPU time of a plan, the last part until the next step of the free GPUs."""
    total, last = 0.0, min(following, NEVER)
    for step in range(m):
        if plan_levels[step]:
            until = plan_times[step + 1] if step + 1 < m else (last if last < NEVER else end)
            total += sizes[plan_levels[step]] * (until - plan_times[step])
    return total


@compiled
def _without(
    times: Floats, free: Integers, n: int, plan_times: Floats, plan_levels: Integers, m: int,
    sizes: Integers, end: float, out_times: Floats, out_free: Integers,
) -> int:
    """Write the free GPUs without a job's plan; return their number of steps."""  # fmt: skip
    count, step, own = 0, 0, 0
    level = 0
    while True:
        following = times[step] if step < n else NEVER
        change = NEVER
        if own < m:
            change = plan_times[own]
        if change >= end:
            change = end if own <= m else NEVER
        at = min(following, change)
        if at >= NEVER:
            break
        if following == at:
            step += 1
        if change == at:
            if at == end:
                level, own = 0, m + 1
            else:
                level = plan_levels[own]
                own += 1
        out_times[count], out_free[count] = at, free[step - 1] + sizes[level]
        count += 1
    return _merge(out_times, out_free, count)


@compiled
def _scaled_up(
    job: int, times: Floats, free: Integers, n: int, now: float, slot: float,
    left: Floats, deadline: Floats, rates: Floats, sizes: Integers, top: Integers,
    level: Integers, plan_times: Floats, plan_levels: Integers, plan_n: Integers,
    end: Floats, following: Floats,
    new_times: Floats, new_free: Integers, own_times: Floats, own_levels: Integers,
    levels: Integers,
) -> tuple[float, int, int, float, float]:
    """Plan a job with the next level until the first step, and the least share after that.

    Returns the GPU time that it costs per GPU, the numbers of steps of the new free GPUs and of the
    new plan, its end, and the step after it.
    """  # fmt: skip
    size = sizes[job]
    m = _without(
        times, free, n, plan_times[job], plan_levels[job], plan_n[job], size, end[job],
        new_times, new_free,
    )  # fmt: skip
    up = level[job] + 1
    rate = rates[job, up]
    aligned = _aligned(now, deadline[job], slot)
    first = new_times[1] if m > 1 else aligned
    exact = math.ceil(now + left[job] / rate)
    until = _aligned(now, exact, slot)
    own_times[0], own_levels[0], count, after = now, up, 1, NEVER
    if first >= until and deadline[job] >= exact:
        m = _insert(new_times, new_free, m, until, new_free[0])
        new_free[0] -= size[up]
    else:
        if m == 1:
            m = _insert(new_times, new_free, m, first, new_free[0])
        stop = deadline[job] if first == aligned else first
        new_free[0] -= size[up]
        _, m, count, until, exact, after = plan_least(
            new_times, new_free, m, now, slot, left[job] - (stop - now) * rate, rates[job], size,
            top[job], deadline[job], own_times, own_levels, 1, 1, levels,
        )  # fmt: skip
    m = _merge(new_times, new_free, m)
    new = _gpu_time(own_times, own_levels, count, size, until, after)
    old = _gpu_time(plan_times[job], plan_levels[job], plan_n[job], size, end[job], following[job])
    return (new - old) / (size[up] - size[level[job]]), m, count, until, after


@compiled
def plan_jobs(
    now: float, slot: float, gpus: int,
    left: Floats, deadline: Floats, rates: Floats, sizes: Integers, top: Integers,
    least: bool, room: int, times: Floats, free: Integers, plan_times: Floats,
    plan_levels: Integers, plan_n: Integers, end: Floats, exact: Floats, following: Floats,
    met: NDArray[np.bool_], stop: bool,
) -> int:
    """Plan jobs one after the other; return the number of steps of the free GPUs.

    With `least` each gets its minimum satisfactory share, and one that cannot meet its deadline as
    many GPUs as possible; without it all jobs do. `stop` ends at the first that misses.
    """  # fmt: skip
    levels = np.empty(room, dtype=np.int64)
    times[0], free[0], n = now, gpus, 1
    for job in range(len(left)):
        met[job] = False
        following[job] = NEVER
        if least and deadline[job] > now:
            met[job], n, plan_n[job], end[job], exact[job], following[job] = plan_least(
                times, free, n, now, slot, left[job], rates[job], sizes[job], top[job],
                deadline[job], plan_times[job], plan_levels[job], 0, 0, levels,
            )  # fmt: skip
            if met[job]:
                n = _merge(times, free, n)
        if not met[job]:
            if stop and least:
                return n
            n, plan_n[job], end[job], exact[job] = plan_greedily(
                times, free, n, now, slot, left[job], rates[job], sizes[job], top[job],
                deadline[job] if least else NEVER, plan_times[job], plan_levels[job],
            )  # fmt: skip
            if not least:
                met[job] = exact[job] <= deadline[job]
                if stop and not met[job]:
                    return n
    return n


@compiled
def spread_free(
    now: float, slot: float, gpus: int,
    left: Floats, deadline: Floats, rates: Floats, sizes: Integers, top: Integers, room: int,
    n: int, times: Floats, free: Integers, plan_times: Floats, plan_levels: Integers,
    plan_n: Integers, end: Floats, following: Floats, met: NDArray[np.bool_],
    level: Integers, order: Integers,
) -> None:
    """Give free GPUs away one level at a time, to the job with the largest return.

    Changes levels, plans, ends and the order of the jobs (by their return, stable).
    """  # fmt: skip
    jobs = len(left)
    levels = np.empty(room, dtype=np.int64)
    new_times, new_free = np.empty(room), np.empty(room, dtype=np.int64)
    own_times, own_levels = np.empty(room), np.empty(room, dtype=np.int64)
    gain = np.full(jobs, -NEVER)
    spare = free[0]
    while spare > 0:
        for job in range(jobs):
            if level[job] == top[job] or not met[job]:
                continue
            gain[job] = -NEVER
            if sizes[job, level[job] + 1] - sizes[job, level[job]] > spare:
                continue
            if level[job] == 0:
                gain[job] = NEVER
                continue
            gain[job] = _scaled_up(
                job, times, free, n, now, slot, left, deadline, rates, sizes, top, level,
                plan_times, plan_levels, plan_n, end, following,
                new_times, new_free, own_times, own_levels, levels,
            )[0]  # fmt: skip
        order[:] = order[np.argsort(-gain[order], kind="mergesort")]
        chosen = -1
        for job in order:
            if level[job] < top[job] and met[job]:
                if sizes[job, level[job] + 1] - sizes[job, level[job]] <= spare:
                    chosen = job
                    break
        if chosen < 0:
            break
        _, n, count, end[chosen], following[chosen] = _scaled_up(
            chosen, times, free, n, now, slot, left, deadline, rates, sizes, top, level,
            plan_times, plan_levels, plan_n, end, following,
            new_times, new_free, own_times, own_levels, levels,
        )  # fmt: skip
        times[:n], free[:n] = new_times[:n], new_free[:n]
        plan_n[chosen] = count
        plan_times[chosen, :count] = own_times[:count]
        plan_levels[chosen, :count] = own_levels[:count]
        level[chosen] += 1
        spare = free[0]
