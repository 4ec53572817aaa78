"""What the paper's model gave before it was rebuilt, it gives now."""

import json

import numpy as np
import pytest
from recorded import PATH, everything, plain

# Sums are added up in another order where the compiler finds other registers; counts, arms and
# recommendations are whole numbers and equal.
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def now():
    return plain(everything())


@pytest.fixture(scope="module")
def then():
    return json.loads(PATH.read_text(encoding="utf-8"))


def leaves(tree, path=()):
    if isinstance(tree, dict):
        for name, branch in tree.items():
            yield from leaves(branch, (*path, name))
    else:
        yield path, tree


def test_every_number_is_what_it_was(now, then):
    now, then = dict(leaves(now)), dict(leaves(then))
    assert now.keys() == then.keys()
    for path, value in then.items():
        counted = path[-1] in ("best", "recommended", "correct", "allocation")
        exact = path[0] == "arms" or (path[0] != "rates" and counted)  # a rate's shares are solved
        if exact:
            np.testing.assert_array_equal(now[path], value, err_msg=str(path))
        else:
            np.testing.assert_allclose(
                now[path], value, rtol=ROUNDING, atol=1e-12, err_msg=str(path)
            )


def test_another_number_is_noticed(now, then):
    path = ("posteriors", "ball", "log_error")
    changed = dict(leaves(now)) | {path: dict(leaves(now))[path] * (1 + 1e-6)}
    assert not np.isclose(changed[path], dict(leaves(then))[path], rtol=ROUNDING, atol=1e-12)
