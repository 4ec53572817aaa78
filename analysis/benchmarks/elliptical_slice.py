"""Elliptical slice sampling (Murray, Adams, MacKay 2010) by BlackJAX: a sampler of one's own."""

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from bayes_feasible._check import Array
from bayes_feasible.analysis.samplers.own import Target

jax.config.update("jax_enable_x64", True)


def elliptical_slice(target: Target) -> Array:
    """BlackJAX's elliptical slice sampler: Gaussian prior, and a likelihood of 0 or 1."""
    vectors, limits = jnp.array(target.vectors), jnp.array(target.limits)

    def log_likelihood(point: Any) -> Any:
        inside = jnp.any(jnp.all(vectors @ point >= limits, axis=1))
        return jnp.where(inside, 0.0, -jnp.inf)

    kernel = blackjax.elliptical_slice(
        log_likelihood, mean=jnp.array(target.mean), cov=jnp.array(target.covariance)
    )

    def step(state: Any, key: Any) -> Any:
        state, _ = kernel.step(key, state)
        return state, state.position

    @jax.jit
    def chain(start: Any, key: Any) -> Any:
        keys = jax.random.split(key, target.tune + target.draws)
        return jax.lax.scan(step, kernel.init(start), keys)[1][target.tune :]

    keys = jax.random.split(jax.random.key(target.seed), len(target.starts))
    return np.asarray(jax.vmap(chain)(jnp.array(target.starts), keys))
