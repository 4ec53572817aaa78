"""The declared model and the blocks of the posterior are one density."""

import numpy as np
import pytest
from scipy import stats

import bayes_feasible as bf
from bayes_feasible import models


def any_posterior():
    problem = bf.Problem(
        [[1.0, 0.0], [1.0, 1.0], [0.5, -1.0]],
        {"known": 0.5, "learnt": 1.0, "harm": 0.3},
        reward=bf.Poisson(prior=bf.Prior([0.2, 0.0], [1.0, 0.5])),
        costs={
            "known": bf.Gaussian(0.8, prior=bf.Prior(covariance=[[2.0, 0.4], [0.4, 1.0]])),
            "learnt": bf.Gaussian(noise_prior=(2.0, 3.0)),
            "harm": bf.Bernoulli(),
        },
    )
    truth = bf.Instance(problem, [0.5, 0.2], [[0.1, 0.2], [0.3, 0.4], [-1.0, 0.5]])
    posterior = bf.Posterior(problem)
    arms = np.arange(30) % 2
    rewards, costs = truth.pull(arms, seed=1)
    costs[::3, 2] = np.nan
    rewards[5] = np.nan
    posterior.update(arms, rewards, costs)
    return posterior


def test_the_declared_density_is_that_of_the_blocks():
    posterior = any_posterior()
    model = models.declare(posterior)
    logp = model.compile_logp(jacobian=False)
    rng = np.random.default_rng(0)
    found, wanted = [], []
    _, known, learnt, _ = posterior.blocks
    for _ in range(6):
        theta = rng.normal(size=(4, 2))
        variance = float(rng.uniform(0.5, 2.0))
        point = {"theta_reward": theta[0], "theta_cost": theta[1:]}
        found.append(float(logp(point | {"variance_learnt_log__": np.log(variance)})))
        covariance = variance * learnt.inner @ learnt.inner.T
        wanted.append(
            posterior.blocks[0].log_density(theta[:1])[0]
            + posterior.blocks[3].log_density(theta[3:])[0]
            + stats.multivariate_normal.logpdf(theta[1], known.mean, known.root @ known.root.T)
            + stats.multivariate_normal.logpdf(theta[2], learnt.mean, covariance)
            + stats.invgamma.logpdf(variance, learnt.shape, scale=learnt.scale)
        )
    np.testing.assert_allclose(np.diff(found), np.diff(wanted), rtol=1e-9)


@pytest.mark.slow
def test_long_nuts_agrees_on_who_is_best():
    import pymc as pm

    posterior = any_posterior()
    with models.declare(posterior):
        draws = pm.sample(
            4000, chains=4, cores=1, random_seed=1, progressbar=False, target_accept=0.95
        ).posterior.stack(sample=("chain", "draw"))
    theta = np.concatenate(
        [draws.theta_reward.values.T[:, np.newaxis],
         draws.theta_cost.transpose("sample", "constraint", "feature").values], axis=1
    )  # fmt: skip
    winner = posterior.problem.best_under(theta)
    counted = np.bincount(winner + 1, minlength=4) / winner.size
    found = posterior.probability_best()
    np.testing.assert_allclose(counted, [found.none.item(), *found.best.values], atol=0.01)


def test_models_of_the_paper_refuse_other_problems():
    with pytest.raises(ValueError, match=r"problem.*declare"):
        models.linear_gaussian(any_posterior())
    plain = bf.Posterior(bf.Problem([[1, 0], [0, 1]], 0.5))
    plain.update(0, 1.0, np.nan)
    with pytest.raises(ValueError, match=r"data.*declare"):
        models.linear_gaussian(plain)
