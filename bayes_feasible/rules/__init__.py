"""Sampling rules, one file each."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_feasible.rules.base import Rule

HOMES = {  # of each rule: the file it is in. This line is what makes a rule known everywhere
    "Descent": "descent",
    "BLFAIPS": "blfaips",
    "PEPS": "peps",
    "LinearThompson": "thompson",
    "TopTwo": "top_two",
    "FixedAllocation": "allocation",
    "Uniform": "allocation",
    "GOptimal": "allocation",
    "Oracle": "allocation",
    "BestResponse": "best_response",
    "PlugIn": "plug_in",
    "SuccessiveRejects": "successive_rejects",
    "SequentialHalving": "sequential_halving",
    "ODLinBAI": "od_linbai",
    "GSE": "gse",
    "OCBA": "ocba",
    "TopTwoTCI": "top_two_tci",
    "FWS": "fws",
    "MDAPT": "mdapt",
    "LinGapE": "lin_gap_e",
}


class _Rules(Mapping[str, "type[Rule]"]):
    """The rules by name; a rule is imported when it is first looked up."""

    def __getitem__(self, name: str) -> "type[Rule]":
        found: type[Rule] = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


RULES = _Rules()
