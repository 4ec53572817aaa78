"""What the tests of the theory share."""

import numpy as np
from helpers import least_exponents

import bayes_feasible as bf


def seed_of(replicate, seed=0):
    return np.random.SeedSequence(seed).spawn(replicate + 1)[-1]


def ridged_exponent(arms, counts, ridge, theta, best, radius=None):
    """The least exponent a pull, by a cone solver; the ridge counts as pulls of the axes."""
    extended = bf.Problem(np.vstack([arms, np.eye(2)]), 0.5, candidates=arms,
                          parameter_radius=radius)  # fmt: skip
    total = counts.sum() + 2 * ridge
    shares = np.append(counts, [ridge, ridge]) / total
    exponents = least_exponents(bf.Alternative(extended, best), theta, shares)
    return exponents.min() * total / counts.sum()
