"""Pulls as they were recorded, one by one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.files.atomic import netcdf_bytes, replaced
from bayes_feasible.files.guard import read_file, read_netcdf
from bayes_feasible.outcomes import REWARD
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.sums import PLURAL, read_rows

if TYPE_CHECKING:
    import xarray as xr


class History:
    """Which arms were pulled, in which order, and what they showed.

    `Posterior` keeps the sums that its outcomes ask for. Models with other noise need the pulls
    themselves. A row is one pull, or sums up many.

    Parameters
    ----------
    problem : Problem
    arms : vector over rows
        By index or name.
    rewards : vector over rows
        NaN where it was not seen (yet); so are costs.
    costs : table (row, constraint), or a dict of names to vectors
        A vector is enough for one constraint; leave it out if there is none.
    counts : whole number, or a vector over rows
        How many pulls each row sums up; see `Posterior.update`.
    sds : table (row, 1 + constraint), or a dict of names to vectors, optional
        Standard deviations over the pulls of a row; what has one is their mean, not their sum.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> history = History(problem, [0, 1, 0], [2.0, 1.0, 1.0], [0.1, 0.7, 0.2])
    >>> history.posterior().theta_reward
    array([1. , 0.5])
    """

    def __init__(
        self, problem: Problem, arms: Any, rewards: Any, costs: Any = None, counts: Any = 1, *,
        sds: Any = None,
    ) -> None:  # fmt: skip
        _check.kind("problem", problem, Problem)
        self.problem = problem
        arms = _check.arms(problem, arms)
        self._rows = read_rows(problem, arms, rewards, costs, counts, sds, PLURAL)

    @property
    def arms(self) -> NDArray[np.int64]:
        """Arm of each row, by index."""
        return self._rows.arms

    @property
    def rewards(self) -> Array:
        """Reward of each row."""
        return self._rows.values[:, 0]

    @property
    def costs(self) -> Array:
        """Costs of each row, (row, constraint)."""
        return self._rows.values[:, 1:]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many pulls each row sums up."""
        return self._rows.counts

    @property
    def sds(self) -> Array:
        """Standard deviations over the pulls of each row, (row, 1 + constraint); NaN for none."""
        return self._rows.sds

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        problem: Problem,
        columns: Mapping[str, str | None] | None = None,
    ) -> "History":
        r"""Read recorded pulls, whoever recorded them.

        Parameters
        ----------
        path : path
            A .csv table with one pull a line, or a netCDF file (.nc). The table has a column
            `arm` (names, or indices where no arm's name is a number), a column for the reward
            under its name or as `reward`, and one for each constraint, under its name or as
            `cost_0`, `cost_1`, ...; `cost` will do for a single one. An empty cell was not seen
            (yet); empty lines are skipped. Where lines sum up many pulls, a column `count` says
            how many, and `sd_` before an outcome's name makes that outcome a mean with this
            standard deviation. In netCDF these are variables over the rows; the costs may be
            one, `cost`, over rows and constraints, as `save` writes it.
        problem : Problem
            What the arms and the constraints are.
        columns : dict of such names to columns of the file, optional
            Where the file has names of its own, such as `{"arm": "variant", "count": "visitors"}`.
            Its other columns are then left aside. None: the file has no such column.

        Raises
        ------
        ValueError
            If the file does not fit the problem; a malformed line is named by its number.

        Examples
        --------
        >>> import tempfile
        >>> from bayes_feasible import Problem
        >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"dose": 0.5})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "pulls.csv")
        ...     _ = path.write_text("arm,reward,dose\nlow,0.1,0.3\nhigh,1.2,0.8\n")
        ...     History.load(path, problem)
        History of 2 pulls of 2 arms
        """
        _check.kind("problem", problem, Problem)
        file = _recognised(path)
        if not file.exists():
            raise FileNotFoundError(f"{file}: no such file")
        try:
            given = {} if columns is None else dict(columns)
            if file.suffix.lower() == ".csv":
                return _from_csv(file, problem, given)
            return _from_netcdf(file, problem, given)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file}: {error}") from error

    def save(self, path: str | os.PathLike[str], *, spreadsheet: bool = False) -> None:
        """Write the pulls so that `load` gives back the same ones, to the last digit.

        Parameters
        ----------
        path : path
            Its extension, .csv or .nc, decides the format. The file is replaced in one step.
        spreadsheet : bool
            Whether to put an apostrophe in front of names in a .csv file that a spreadsheet would
            take for formulas, such as "=A1"; `load` takes it away again.

        Examples
        --------
        >>> import tempfile
        >>> from bayes_feasible import Problem
        >>> history = History(Problem([[1, 0], [0, 1]], thresholds=0.5), [0, 1], [1, 2], [3, 4])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     history.save(f"{folder}/pulls.csv")
        ...     print(Path(folder, "pulls.csv").read_text(), end="")
        arm,reward,cost_0
        0,1.0,3.0
        1,2.0,4.0
        """
        import xarray as xr

        from bayes_feasible.files.pulls import write_pulls

        with replaced(file := _recognised(path)) as new:
            if file.suffix.lower() == ".csv":
                new.write_bytes(write_pulls(self, spreadsheet=spreadsheet).encode("utf-8"))
            else:
                names = xr.DataArray(self.problem.coords["arm"], dims="choice")
                new.write_bytes(netcdf_bytes(self.to_dataset().assign_coords(arm_name=names)))

    def __len__(self) -> int:
        return self.arms.size

    def first(self, pulls: int) -> "History":
        """The history as it was after so many pulls.

        Examples
        --------
        >>> from bayes_feasible import Problem
        >>> history = History(Problem([[1, 0], [0, 1]]), [0, 1, 0], [2.0, 1.0, 1.0])
        >>> history.first(2).posterior().counts
        array([1, 1])
        """
        pulls = _check.count("pulls", pulls, least=0)
        if pulls > len(self):
            raise ValueError(f"pulls: expected at most {len(self)}, got {pulls}")
        part = slice(pulls)
        return History(
            self.problem, self.arms[part], self.rewards[part], self.costs[part], self.counts[part],
            sds=self.sds[part],
        )  # fmt: skip

    def posterior(self) -> Posterior:
        """What the pulls say if the outcomes are those of the problem."""
        posterior = Posterior(self.problem)
        posterior._add(self._rows)
        return posterior

    def to_dataset(self) -> "xr.Dataset":
        """`arm` (as an index), `reward` and `cost` over `pull` and `constraint`.

        Where rows sum up many pulls, `count` and `sd` (over `pull` and `outcome`) too.

        Examples
        --------
        >>> from bayes_feasible import Problem
        >>> history = History(Problem([[1, 0], [0, 1]]), [0, 1, 0], [2.0, 1.0, 1.0])
        >>> history.to_dataset().reward.sel(pull=1).item()
        2.0
        """
        import xarray as xr

        dataset = xr.Dataset(
            {
                "arm": ("pull", self.arms),
                "reward": ("pull", self.rewards),
                "cost": (("pull", "constraint"), self.costs),
            },
            coords={
                "pull": np.arange(1, len(self) + 1),
                "constraint": self.problem.coords["constraint"],
            },
        )
        if (self.counts == 1).all():
            return dataset
        return dataset.assign(count=("pull", self.counts), sd=(("pull", "outcome"), self.sds))

    def __repr__(self) -> str:
        pulls = int(self.counts.sum())
        rows = "" if pulls == len(self) else f" in {len(self)} rows"
        return f"History of {pulls} pulls{rows} of {len(self.problem.arms)} arms"


_EXTENSIONS = (".csv", ".nc")


def _recognised(path: Any) -> Path:
    file = _check.path("path", path)
    if file.is_dir():
        raise ValueError(f"{file}: expected a file, this is a folder")
    if file.suffix.lower() not in _EXTENSIONS:
        raise ValueError(
            f"{file}: expected the extension {' or '.join(_EXTENSIONS)}, got {file.suffix!r}"
        )
    return file


def _from_csv(file: Path, problem: Problem, columns: Mapping[str, str | None]) -> History:
    from bayes_feasible.files.pulls import read_pulls

    try:
        text = read_file(file).decode("utf-8-sig")  # line breaks in names as they are
    except UnicodeDecodeError as error:
        raise ValueError(f"expected text in UTF-8 ({error})") from error
    return read_pulls(text, problem, columns)


def _from_netcdf(file: Path, problem: Problem, columns: Mapping[str, str | None]) -> History:
    stored = read_netcdf(read_file(file))
    for name, theirs in columns.items():
        if theirs not in stored:
            raise ValueError(f"columns: no variable {theirs!r}, which was to be {name!r}")
    stored = stored.rename({theirs: name for name, theirs in columns.items() if theirs != name})
    reward = problem.reward_name if problem.reward_name in stored else REWARD
    missing = [name for name in ("arm", reward) if name not in stored]
    if missing:
        raise ValueError(f"no variable {', '.join(map(repr, missing))}")
    names = list(map(str, problem.coords["arm"].tolist()))
    if "arm_name" in stored and (got := list(map(str, stored.arm_name.values.tolist()))) != names:
        raise ValueError(f"arms: expected those of the problem, {names}, got {got}")
    arms = stored.arm.values
    if arms.dtype.kind in "UOT":
        arms = _check.arms(problem, list(map(str, arms)), name="arm")
    counts = stored["count"].values if "count" in stored else 1
    sds = stored.sd.values if "sd" in stored else None
    return History(problem, arms, stored[reward].values, _costs(stored, problem), counts, sds=sds)


def _costs(stored: "xr.Dataset", problem: Problem) -> Any:
    """The costs in the order of the constraints: one variable, or one under each one's name."""
    names = problem.coords["constraint"].tolist()
    if "cost" in stored:
        if "constraint" not in stored.coords:
            return stored.cost.values
        wanted, given = list(map(str, names)), list(map(str, stored.constraint.values.tolist()))
        if sorted(given) != sorted(wanted):
            raise ValueError(f"constraints: expected {wanted}, got {given}")
        order = [given.index(name) for name in wanted]
        return stored.cost.transpose(..., "constraint").values[:, order]
    if not names:
        return None
    each = [name if isinstance(name, str) else f"cost_{name}" for name in names]
    missing = [name for name in each if name not in stored or name in ("arm", "reward")]
    if missing:
        told = ["cost"] if len(missing) == len(each) else missing
        raise ValueError(f"no variable {', '.join(map(repr, told))}")
    return np.stack([stored[name].values for name in each], axis=-1)
