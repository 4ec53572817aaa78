"""PyMC models, one file a model.

>>> from bayes_feasible import Alternative, Posterior, instances, models
>>> instance = instances.end_of_optimism()
>>> posterior = Posterior(instance.problem)
>>> posterior.update([0, 2], *instance.pull([0, 2], seed=1))
>>> model = models.linear_gaussian(posterior)
>>> wrong = models.alternative(model, Alternative(instance.problem, instance.best))

`linear_gaussian`, `unknown_noise`, `student_t` and `logistic` have the same variables, and
`alternative` adds the alternative set of a candidate to any of them. Data are kept in `pm.Data`, so
one compiled model serves the next data (`set_data`), the next candidate or event
(`set_alternative`) and the next Gaussian reference (`set_reference`, `laplace`).
"""

from bayes_feasible.models._data import set_data
from bayes_feasible.models.alternative import alternative, set_alternative
from bayes_feasible.models.declare import declare
from bayes_feasible.models.laplace import laplace
from bayes_feasible.models.linear_gaussian import linear_gaussian
from bayes_feasible.models.logistic import logistic
from bayes_feasible.models.parameters import in_parameters
from bayes_feasible.models.rate_regression import rate_regression
from bayes_feasible.models.reference import Reference
from bayes_feasible.models.student_t import student_t
from bayes_feasible.models.unknown_noise import Student, unknown_noise, unknown_noise_student
from bayes_feasible.models.whitening import set_reference, whitened

__all__ = [
    "Reference",
    "Student",
    "alternative",
    "declare",
    "in_parameters",
    "laplace",
    "linear_gaussian",
    "logistic",
    "rate_regression",
    "set_alternative",
    "set_data",
    "set_reference",
    "student_t",
    "unknown_noise",
    "unknown_noise_student",
    "whitened",
]
