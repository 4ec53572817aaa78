"""PyMC models, one file a model.

>>> from bayes_feasible import Alternative, Posterior, instances, models
>>> instance = instances.end_of_optimism()
>>> posterior = Posterior(instance.problem)
>>> posterior.update([0, 2], *instance.pull([0, 2], seed=1))
>>> model = models.linear_gaussian(posterior)
>>> wrong = models.alternative(model, Alternative(instance.problem, instance.best))

Data are kept in `pm.Data`, so the same compiled model serves the next posterior:
`models.observe(model, posterior)`.
"""

from bayes_feasible.models.alternative import alternative, doubt
from bayes_feasible.models.linear_gaussian import linear_gaussian, observe

__all__ = ["alternative", "doubt", "linear_gaussian", "observe"]
