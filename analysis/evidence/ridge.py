r"""Gaussians along a ridge: for models that learn the scale of their own parameters.

The posterior of a hierarchy has no mode where the scale :math:`\tau` may be 0: it is a funnel, in
which no Gaussian fits. Given :math:`\log\tau` it is close to a Gaussian, or one is. So the scales
stand on a grid, Newton's method finds the mode of everything else at each node, also within an
event, and at each node stands a Gaussian that follows the mode to its neighbours. The mixture of
these is what `expansion` draws from, and its weights correct whatever is left.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.alternative.events import Events
from bayes_feasible.analysis.evidence.expansion import Gaussian
from bayes_feasible.models.density import Density
from bayes_feasible.models.laplace import Mode, find_modes, inverse, project

MOST_SCALES = 2  # a grid of more is too large
SPACING = 0.5  # of the nodes, on the logarithm; also the standard deviation of the Gaussians
COARSE = 2.0  # of the nodes while the ends are looked for
FARTHEST = 12.0  # of a node from the middle
MARGIN = 3.0  # nats that the coarse grid may misjudge a node by
LOWEST = 12.0  # nodes with e^-12 of the best one's probability are left out


class Held:
    """A density whose scales are held: Newton's method moves everything else."""

    def __init__(self, density: Density, scales: NDArray[np.int64]) -> None:
        self._density, self._scales = density, scales
        self.size = density.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._density, name)

    def bends(self, points: Array) -> tuple[Array, Array]:
        """Slopes and curvatures, as if the scales could not move."""
        slope, curvature = self._density.bends(points)
        slope[:, self._scales] = 0.0
        curvature[:, self._scales] = 0.0
        curvature[:, :, self._scales] = 0.0
        curvature[:, self._scales, self._scales] = 1.0
        return slope, curvature


class Ridge:
    """The grid of a density's scales, and the modes at its nodes."""

    def __init__(self, density: Density) -> None:
        self.density, self.scales = density, density.scales
        self._held: Any = Held(density, self.scales)
        self.modes = self.within(density.everywhere())[0]

    def within(self, events: Events) -> list[list[Mode]]:
        """The modes at the nodes within each event, less nodes that do not matter there.

        Far out an event may happen where the scales are quite others than those of the whole, so
        each event looks for its own ends of the grid.
        """
        return [self._search(events.take([e])) for e in range(len(events))]

    def _search(self, event: Events) -> list[Mode]:
        steps = np.arange(-FARTHEST, FARTHEST + COARSE, COARSE)
        lattice = np.array(list(product(steps, repeat=len(self.scales))))
        start = self.density.start
        coarse = start[self.scales] + lattice
        modes, heights = self._on(coarse, event, start)
        good = coarse[heights > heights.max() - LOWEST - MARGIN]
        axes = [np.arange(a.min() - COARSE / 2, a.max() + COARSE, SPACING) for a in good.T]
        top = modes[int(np.argmax(heights))].at
        modes, heights = self._on(np.array(list(product(*axes))), event, top)
        return [modes[i] for i in np.flatnonzero(heights > heights.max() - LOWEST)]

    def _on(self, nodes: Array, event: Events, start: Array) -> tuple[list[Mode], Array]:
        """The modes at nodes within an event, and the logarithms of their masses."""
        starts = np.tile(start, (len(nodes), 1))
        starts[:, self.scales] = nodes
        pairs = event.take([0] * len(nodes))
        with np.errstate(all="ignore"):
            curvatures = self._held.bends(starts)[1]
            metrics = np.array([inverse(one) for one in curvatures])
            found = find_modes(self._held, project(self._held, pairs, starts, metrics), pairs)
        asked = event.limits[0] > -np.inf
        normals, limits = self.density.normals(event)[0, asked], event.limits[0, asked]
        heights, modes = np.full(len(nodes), -np.inf), []
        for i, mode in enumerate(found):
            if np.isfinite(mode.value) and np.isfinite(mode.curvature).all():
                followed = self._follow(mode)
                if np.linalg.eigvalsh(followed.curvature)[0] > 0:
                    mode = followed
                    heights[i] = Gaussian(mode, normals, limits).log_mass
            modes.append(mode)
        return modes, heights

    def _follow(self, mode: Mode) -> Mode:
        """A Gaussian as wide as the grid is spaced, whose mean given the scales is the mode there.

        Given the scales it keeps the slope and curvature of the density.
        """
        scales = self.scales
        rest = np.setdiff1d(np.arange(self.density.size), scales)
        slope, curvature = (one[0] for one in self.density.bends(mode.at[np.newaxis]))
        inner, cross = curvature[np.ix_(rest, rest)], curvature[np.ix_(scales, rest)]
        lead = np.linalg.solve(inner, np.column_stack([cross.T, slope[rest]]))
        wide = np.eye(len(scales)) / SPACING**2
        curvature[np.ix_(scales, scales)] = cross @ lead[:, :-1] + wide
        slope[scales] = cross @ lead[:, -1]
        return Mode(mode.at, mode.value, slope, curvature, mode.settled)


def has_ridge(density: Density) -> bool:
    """Whether the model learns scales, few enough for a grid."""
    return 0 < len(density.scales) <= MOST_SCALES
