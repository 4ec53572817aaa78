"""Pulls as they were recorded, one by one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.files.atomic import netcdf_bytes, replaced
from bayes_feasible.files.guard import read_file, read_netcdf
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

if TYPE_CHECKING:
    import xarray as xr


class History:
    """Which arms were pulled, in which order, and what they showed.

    `Posterior` keeps the sums that Gaussian noise of known scale asks for. Models with other
    noise need the pulls themselves.

    Parameters
    ----------
    problem : Problem
    arms : vector over pulls
        By index or name.
    rewards : vector over pulls
    costs : table (pull, constraint), or a dict of names to vectors
        A vector is enough for one constraint; leave it out if there is none.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> history = History(problem, [0, 1, 0], [2.0, 1.0, 1.0], [0.1, 0.7, 0.2])
    >>> history.posterior().theta_reward
    array([1. , 0.5])
    """

    def __init__(self, problem: Problem, arms: Any, rewards: Any, costs: Any = None) -> None:
        _check.kind("problem", problem, Problem)
        self.problem = problem
        arms = _check.arms(problem, arms)
        names = ("arms", "rewards", "costs")
        checked = _check.pulls(problem, arms, rewards, costs, names)
        self.arms: NDArray[np.int64] = checked[0]
        self.rewards: Array = checked[1]
        self.costs: Array = checked[2]

    @classmethod
    def load(cls, path: str | os.PathLike[str], problem: Problem) -> "History":
        r"""Read recorded pulls, whoever recorded them.

        Parameters
        ----------
        path : path
            A .csv table with one pull a line, or a netCDF file (.nc). The table has a column
            `arm` (names, or indices where no arm's name is a number), a column `reward`, and one
            for each constraint, under its name or as `cost_0`, `cost_1`, ...; `cost` will do for
            a single one. Empty lines are skipped. In netCDF these are variables over the pulls;
            the costs may be one, `cost`, over pulls and constraints, as `save` writes it.
        problem : Problem
            What the arms and the constraints are.

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
            if file.suffix.lower() == ".csv":
                return cls(problem, *_from_csv(file, problem))
            return cls(problem, *_from_netcdf(file, problem))
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
        return History(self.problem, self.arms[part], self.rewards[part], self.costs[part])

    def posterior(self) -> Posterior:
        """What the pulls say if the noise is Gaussian with the scales of the problem."""
        return Posterior.from_history(self.problem, self.arms, self.rewards, self.costs)

    def to_dataset(self) -> "xr.Dataset":
        """`arm` (as an index), `reward` and `cost` over `pull` and `constraint`.

        Examples
        --------
        >>> from bayes_feasible import Problem
        >>> history = History(Problem([[1, 0], [0, 1]]), [0, 1, 0], [2.0, 1.0, 1.0])
        >>> history.to_dataset().reward.sel(pull=1).item()
        2.0
        """
        import xarray as xr

        return xr.Dataset(
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

    def __repr__(self) -> str:
        return f"History of {len(self)} pulls of {len(self.problem.arms)} arms"


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


def _from_csv(file: Path, problem: Problem) -> tuple[Any, Any, Any]:
    from bayes_feasible.files.pulls import read_pulls

    try:
        text = read_file(file).decode("utf-8-sig")  # line breaks in names as they are
    except UnicodeDecodeError as error:
        raise ValueError(f"expected text in UTF-8 ({error})") from error
    arms, rewards, costs = read_pulls(text, problem)
    table = np.array(costs, dtype=float).reshape(len(arms), problem.thresholds.size)
    return np.array(arms, dtype=np.int64), rewards, table


def _from_netcdf(file: Path, problem: Problem) -> tuple[Any, Any, Any]:
    stored = read_netcdf(read_file(file))
    missing = [name for name in ("arm", "reward") if name not in stored]
    if missing:
        raise ValueError(f"no variable {', '.join(map(repr, missing))}")
    ours = list(map(str, problem.coords["arm"].tolist()))
    if "arm_name" in stored and (theirs := list(map(str, stored.arm_name.values.tolist()))) != ours:
        raise ValueError(f"arms: expected those of the problem, {ours}, got {theirs}")
    arms = stored.arm.values
    if arms.dtype.kind in "UOT":
        arms = _check.arms(problem, list(map(str, arms)), name="arm")
    return arms, stored.reward.values, _costs(stored, problem)


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
