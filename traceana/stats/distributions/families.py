"""Six distributions of positive values, on the scale of logarithms.

Each has the log density and log survival at y = ln x, with first and second derivatives in two
unbounded parameters: the location (log of the scale), and the log of a width or shape. The
exponential has the location only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from scipy import special

from traceana.stats.arrays import Floats

Terms: TypeAlias = tuple[Floats, Floats, Floats]
"""Value; first derivatives, one row per parameter; second ones, rows 00, 01, 11 (or 00)."""
Standard: TypeAlias = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""A logarithm as a function of z, with its first and second derivative."""

_DIFFERENCE: Final = 1e-4  # step in the log of gamma's shape: no closed form


@dataclass(frozen=True)
class Family:
    """A distribution; parameters are (location, log of width or shape)."""

    name: str
    parameters: tuple[str, ...]
    density: Callable[[Floats, Floats], Terms]
    survival: Callable[[Floats, Floats], Terms]
    quantile: Callable[[Floats, Floats], Floats]
    """Log of the value at a log of survival."""
    start: Callable[[float, float], tuple[float, ...]]
    """Parameters at a mean and a standard deviation of ln x."""
    sign: int = 1
    """-1 if the displayed shape is one over the width."""


def _location_width(
    name: str,
    parameters: tuple[str, str],
    functions: tuple[Standard, Standard, Callable[[Floats], Floats]],
    moments: tuple[float, float],
    sign: int,
) -> Family:
    """Return the family whose z = (y - location) / width follows a standard distribution."""
    log_density, log_survival, quantile = functions
    mean, std = moments

    def terms(function: Standard, y: Floats, theta: Floats, logs: float) -> Terms:
        width = np.exp(theta[1])
        z = (y - theta[0]) / width
        value, first, second = function(z)
        zs = z * second
        return (
            value - logs * theta[1],
            np.stack([-first / width, -z * first - logs]),
            np.stack([second / width**2, (first + zs) / width, z * (first + zs)]),
        )

    return Family(
        name,
        parameters,
        lambda y, theta: terms(log_density, y, theta, 1.0),
        lambda y, theta: terms(log_survival, y, theta, 0.0),
        lambda logs, theta: theta[0] + np.exp(theta[1]) * quantile(logs),
        lambda m, s: (m - mean * s / std, float(np.log(s / std))),
        sign,
    )


def _normal_density(z: Floats) -> Terms:
    return -0.5 * z * z - 0.5 * np.log(2 * np.pi), -z, np.full_like(z, -1.0)


def _normal_survival(z: Floats) -> Terms:
    log_survival = special.log_ndtr(-z)
    hazard = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_survival)
    return log_survival, -hazard, -hazard * (hazard - z)


def _gumbel_density(z: Floats) -> Terms:
    e = np.exp(z)
    return z - e, 1 - e, -e


def _gumbel_survival(z: Floats) -> Terms:
    e = -np.exp(z)
    return e, e, e


def _logistic_density(z: Floats) -> Terms:
    p = special.expit(z)
    return z - 2 * np.logaddexp(0, z), 1 - 2 * p, -2 * p * (1 - p)


def _logistic_survival(z: Floats) -> Terms:
    p = special.expit(z)
    return -np.logaddexp(0, z), -p, -p * (1 - p)


def _exponential(function: Standard, y: Floats, theta: Floats) -> Terms:
    value, first, second = function(y - theta[0])
    return value, -first[None], second[None]


def _lomax_density(y: Floats, theta: Floats) -> Terms:
    shape, u = np.exp(theta[1]), y - theta[0]
    longer, p = shape * np.logaddexp(0, u), special.expit(u)
    return (
        theta[1] + u - longer * (1 + 1 / shape),
        np.stack([(shape + 1) * p - 1, 1 - longer]),
        np.stack([-(shape + 1) * p * (1 - p), shape * p, -longer]),
    )


def _lomax_survival(y: Floats, theta: Floats) -> Terms:
    shape, u = np.exp(theta[1]), y - theta[0]
    longer, p = shape * np.logaddexp(0, u), special.expit(u)
    return (
        -longer,
        np.stack([shape * p, -longer]),
        np.stack([-shape * p * (1 - p), shape * p, -longer]),
    )


def _gamma_density(y: Floats, theta: Floats) -> Terms:
    shape, u = np.exp(theta[1]), y - theta[0]
    e = np.exp(u)
    of_shape = shape * (u - special.digamma(shape))
    return (
        shape * u - e - special.gammaln(shape),
        np.stack([e - shape, of_shape]),
        np.stack([-e, np.full_like(u, -shape), of_shape - shape**2 * special.polygamma(1, shape)]),
    )


def _gamma_survival(y: Floats, theta: Floats) -> Terms:
    u = y - theta[0]
    x = np.exp(u)
    values, hazards = [], []
    for step in (-_DIFFERENCE, 0.0, _DIFFERENCE):
        shape = float(np.exp(theta[1] + step))
        value = log_gammaincc(shape, x)
        values.append(value)
        hazards.append(np.exp(shape * u - x - special.gammaln(shape) - value))
    (below, value, above), (hazard_below, hazard, hazard_above) = values, hazards
    return (
        value,
        np.stack([hazard, (above - below) / (2 * _DIFFERENCE)]),
        np.stack(
            [
                hazard * (x - np.exp(theta[1]) - hazard),
                (hazard_above - hazard_below) / (2 * _DIFFERENCE),
                (above - 2 * value + below) / _DIFFERENCE**2,
            ]
        ),
    )


def log_gammaincc(shape: float, x: Floats, /) -> Floats:
    """Logarithm of the regularised upper incomplete gamma function, far into the tail too."""
    upper = special.gammaincc(shape, x)
    tiny = upper < 1e-200
    result: Floats = np.log(np.where(tiny, 1.0, upper))
    if tiny.any():
        far = x[tiny]
        fraction = np.zeros_like(far)
        for level in range(60, 0, -1):
            fraction = level * (shape - level) / (far + 2 * level + 1 - shape + fraction)
        result[tiny] = (
            shape * np.log(far) - far - special.gammaln(shape) - np.log(far + 1 - shape + fraction)
        )
    return result


def _gamma_start(mean: float, std: float) -> tuple[float, float]:
    # the variance of ln x is trigamma(shape), near 1 / shape + 1 / (2 shape^2)
    shape = (1 + np.sqrt(1 + 2 * std**2)) / (2 * std**2)
    return mean - float(special.digamma(shape)), float(np.log(shape))


FAMILIES: Final = {
    family.name: family
    for family in (
        _location_width(
            "lognormal",
            ("mu", "sigma"),
            (_normal_density, _normal_survival, lambda logs: -special.ndtri_exp(logs)),
            (0.0, 1.0),
            1,
        ),
        Family(
            "gamma",
            ("scale", "shape"),
            _gamma_density,
            _gamma_survival,
            lambda logs, theta: (
                theta[0] + np.log(special.gammainccinv(np.exp(theta[1]), np.exp(logs)))
            ),
            _gamma_start,
        ),
        _location_width(
            "weibull",
            ("scale", "shape"),
            (_gumbel_density, _gumbel_survival, lambda logs: np.log(-logs)),
            (-float(np.euler_gamma), float(np.pi / np.sqrt(6))),
            -1,
        ),
        Family(
            "exponential",
            ("scale",),
            partial(_exponential, _gumbel_density),
            partial(_exponential, _gumbel_survival),
            lambda logs, theta: theta[0] + np.log(-logs),
            lambda mean, _: (mean + float(np.euler_gamma),),
        ),
        Family(
            "lomax",
            ("scale", "shape"),
            _lomax_density,
            _lomax_survival,
            lambda logs, theta: theta[0] + np.log(np.expm1(-logs / np.exp(theta[1]))),
            lambda mean, _: (mean + 1.0, float(np.log(2.0))),
        ),
        _location_width(
            "loglogistic",
            ("scale", "shape"),
            (_logistic_density, _logistic_survival, lambda logs: np.log(np.expm1(-logs))),
            (0.0, float(np.pi / np.sqrt(3))),
            -1,
        ),
    )
}
"""Every family by its name."""
