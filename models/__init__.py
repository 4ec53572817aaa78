"""PyMC models, one file a model.

>>> from bayes_feasible import Alternative, Posterior, instances, models
>>> instance = instances.end_of_optimism()
>>> posterior = Posterior(instance.problem)
>>> posterior.update([0, 2], *instance.pull([0, 2], seed=1))
>>> model = models.linear_gaussian(posterior)
>>> wrong = models.alternative(model, Alternative(instance.problem, instance.best))

`linear_gaussian`, `unknown_noise`, `student_t` and `logistic` have the same variables, and
`alternative` adds the alternative set of a candidate to any of them. Data are kept in `pm.Data`, so
the same compiled model serves the next data (`observe`), the next candidate or event (`doubt`) and
the next Gaussian reference (`refer`, `laplace`).
"""

from bayes_feasible.models._data import observe
from bayes_feasible.models.alternative import alternative, doubt
from bayes_feasible.models.linear_gaussian import linear_gaussian
from bayes_feasible.models.logistic import logistic
from bayes_feasible.models.rate_regression import rate_regression
from bayes_feasible.models.reference import Reference, laplace
from bayes_feasible.models.student_t import student_t
from bayes_feasible.models.unknown_noise import Student, unknown_noise, unknown_noise_student
from bayes_feasible.models.whitening import refer, whitened

__all__ = [
    "Reference",
    "Student",
    "alternative",
    "doubt",
    "laplace",
    "linear_gaussian",
    "logistic",
    "observe",
    "rate_regression",
    "refer",
    "student_t",
    "unknown_noise",
    "unknown_noise_student",
    "whitened",
]
