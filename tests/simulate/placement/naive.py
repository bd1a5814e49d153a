"""The same simulation with plain loops, written from the description of the paper."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Pod:
    cpu: int  # thousandths of a core
    share: int  # thousandths of each GPU
    gpus: int
    types: str
    memory: int

    @property
    def kind(self) -> tuple[int, int, int, str]:
        return self.cpu, self.share, self.gpus, self.types


@dataclass
class Node:
    cpu: int
    memory: int
    free: list[int]
    type: str
    kinds: Counter[int]

    def allows(self, types: str) -> bool:
        return not types or self.type in types.split("|")

    def fits(self, pod: Pod) -> bool:
        if pod.cpu > self.cpu or pod.memory > self.memory:
            return False
        if not pod.gpus:
            return True
        return self.allows(pod.types) and sum(f >= pod.share for f in self.free) >= pod.gpus


Typical = list[tuple[tuple[int, int, int, str], float]]


def typical(pods: list[Pod]) -> Typical:
    counts = sorted(((n, kind) for kind, n in Counter(pod.kind for pod in pods).items()))[::-1]
    kept: list[tuple[int, tuple[int, int, int, str]]] = []
    for n, kind in counts:
        if sum(m for m, _ in kept) >= Fraction(95, 100) * len(pods):
            break
        kept.append((n, kind))
    total = sum(n for n, _ in kept)
    return [(kind, n / total) for n, kind in kept]


def fragment(node: Node, cpu: int, free: list[int], kinds: Typical) -> float:
    total = 0.0
    for (kind_cpu, share, gpus, types), weight in kinds:
        runs = gpus > 0 and node.allows(types) and cpu >= kind_cpu
        if not runs or sum(f >= share for f in free) < gpus:
            total += weight * sum(free)
        else:
            total += weight * sum(f for f in free if f < share)
    return total


def tightest(free: list[int], share: int) -> int:
    return min((f, i) for i, f in enumerate(free) if f >= share)[1]


def whole(free: list[int], gpus: int) -> list[int]:
    return [i for i, f in enumerate(free) if f == 1000][:gpus]


def gradient(node: Node, pod: Pod, taken: list[int], kinds: Typical) -> int:
    left = [f - pod.share if i in taken else f for i, f in enumerate(node.free)]
    before = fragment(node, node.cpu, node.free, kinds)
    after = fragment(node, node.cpu - pod.cpu, left, kinds)
    return math.floor(100 / (1 + math.exp(-round(before - after, 6) / 1000)))


def score(policy: str, node: Node, pod: Pod, kinds: Typical, most: tuple[int, int]) -> int:
    free, asked = sum(node.free), pod.share * pod.gpus
    cpu, gpu = most
    if policy == "dotprod":
        product = (node.cpu / cpu) * (pod.cpu / cpu) + (free / gpu) * (asked / gpu)
        return int(100 * (1 - product / 2))
    if policy == "bestfit":
        return int((1 - ((node.cpu - pod.cpu) / cpu * 0.5 + (free - asked) / gpu * 0.5)) * 100)
    if policy == "fgd":
        return max(gradient(node, pod, taken, kinds) for taken in choices(node, pod))
    if not pod.gpus:
        return 0
    return packing(node, pod) if policy == "packing" else clustering(node, pod, gpu)


def packing(node: Node, pod: Pod) -> int:
    idle = node.free.count(1000)
    if idle == len(node.free):
        return max(33 - idle, idle)
    used = sorted(f for f in node.free if f >= pod.share)[: pod.gpus]
    new = used.count(1000)
    return max(50 - new, 33) if new else max(100 - sum(f * 100 // 1000 for f in used) // 10, 50)


def clustering(node: Node, pod: Pod, most: int) -> int:
    same = node.kinds[0 if pod.share < 1000 else pod.gpus] > 0
    number = len(+node.kinds)
    base = (75 if number == 1 else 50) if same else (0 if number else 25)
    return base + 25 * (most - sum(node.free)) // most


def choices(node: Node, pod: Pod) -> list[list[int]]:
    if pod.share == 1000 or not pod.gpus:
        return [whole(node.free, pod.gpus)]
    return [[i] for i, f in enumerate(node.free) if f >= pod.share]


def gpus_of(policy: str, node: Node, pod: Pod, kinds: Typical) -> list[int]:
    if pod.share == 1000 or not pod.gpus:
        return whole(node.free, pod.gpus)
    if policy == "fgd":
        return max(choices(node, pod), key=lambda taken: gradient(node, pod, taken, kinds))
    return [tightest(node.free, pod.share)]


def simulate(
    pods: list[Pod], nodes: list[Node], policy: str, seed: int, fill: float
) -> list[tuple[float, float]]:
    """Return what is allocated, and the fragment, after each arrival (in thousandths of a GPU)."""
    rng = np.random.default_rng(seed)
    most = max(node.cpu for node in nodes), 1000 * max(len(node.free) for node in nodes)
    capacity = sum(len(node.free) for node in nodes) * 1000
    nodes = [nodes[i] for i in rng.permutation(len(nodes))]
    arrivals = [pods[i] for i in rng.permutation(len(pods))]
    kinds = typical(pods)
    found: list[tuple[float, float]] = []
    arrived = allocated = 0
    for pod in arrivals:
        arrived += pod.share * pod.gpus
        if arrived > fill * capacity:
            break
        fitting = [node for node in nodes if node.fits(pod)]
        if fitting:
            node = max(fitting, key=lambda node: score(policy, node, pod, kinds, most))
            for gpu in gpus_of(policy, node, pod, kinds):
                node.free[gpu] -= pod.share
            node.cpu -= pod.cpu
            node.memory -= pod.memory
            if pod.gpus:
                node.kinds[0 if pod.share < 1000 else pod.gpus] += 1
            allocated += pod.share * pod.gpus
        found.append((allocated, sum(fragment(n, n.cpu, n.free, kinds) for n in nodes)))
    return found
