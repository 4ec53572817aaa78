"""A Gaussian given that at least one of some events happens; see the Stan code."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model(data):
    """The model of one target's data."""
    asked = np.array(data["asked"], dtype=bool)
    normal, limit = np.array(data["normal"]), np.array(data["limit"])
    with pm.Model() as made:
        theta = pm.MvNormal("theta", np.array(data["center"]), chol=np.array(data["root"]))
        held = (pt.dot(normal, theta) >= limit) | ~asked
        inside = pt.any(pt.all(held, axis=1))
        if data["bounded"]:
            length = pt.sqrt(pt.sum(theta.reshape((data["B"], -1)) ** 2, axis=1))
            inside = inside & pt.all(length <= np.array(data["radius"]))
        pm.Potential("inside", pt.switch(inside, 0.0, -np.inf))
    return made
