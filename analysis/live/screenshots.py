"""Screenshots of a trial's page for the documentation: a telephone's and a desk's width.

`python -m bayes_feasible.analysis.live.screenshots DIR` (or `make screenshots`) writes
`live_phone.png` and `live_desk.png`. It needs Chromium: on Debian, `apt-get install chromium`.
"""

import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from bayes_feasible.analysis.live.browser import Browser
from bayes_feasible.analysis.live.serve import serve
from bayes_feasible.files.atomic import write_bytes
from bayes_feasible.outcomes import Bernoulli
from bayes_feasible.prior import Prior
from bayes_feasible.problem import Problem
from bayes_feasible.safety import Safety
from bayes_feasible.stopping.stop import Stop
from bayes_feasible.trial.trial import Trial

DOSES = ("1 mg", "2 mg", "4 mg", "8 mg", "16 mg")
RESPONSE, TOXICITY = (0.2, 0.3, 0.4, 0.5, 0.6), (0.05, 0.1, 0.2, 0.45, 0.6)
COHORTS = 9
SCREENS = {"live_phone.png": (390, 1300), "live_desk.png": (1100, 1150)}


def make_trial(folder: Path) -> Trial:
    """The dose trial of the guide after some cohorts, the last of which is pending."""
    problem = Problem(
        {dose: [1, x] for x, dose in enumerate(DOSES, -2)},
        {"toxicity": 0.30},
        reward={"response": Bernoulli(prior=Prior(mean=[-0.5, 0.5], sd=[1.0, 0.4]))},
        costs={"toxicity": Bernoulli(prior=Prior(mean=[-2.0, 0.8], sd=[1.0, 0.4]))},
    )
    safety = Safety(order=DOSES, before=3, cohort=3, risk=0.6)
    stop = Stop(error=0.1, pulls=60)
    trial = Trial.new(folder / "dose.trial", problem, seed=1, stop=stop, safety=safety)
    rng = np.random.default_rng(1)
    for _ in range(COHORTS):
        arms = trial.ask(3)
        draws = [(rng.random(3) < np.array(each)[arms]) * 1.0 for each in (RESPONSE, TOXICITY)]
        trial.tell(arms, *draws)
    trial.ask(3)
    return trial


def take(folder: Path) -> None:
    """Write the screenshots into a folder."""
    with tempfile.TemporaryDirectory() as place:
        trial, addresses, ready = make_trial(Path(place)), [""], threading.Event()

        def told(address: str) -> None:
            addresses[0] = address
            ready.set()

        options = {"port": 0, "ready": told}
        threading.Thread(target=serve, args=(trial.path,), kwargs=options, daemon=True).start()
        ready.wait()
        browser = Browser()
        try:
            for name, (width, height) in SCREENS.items():
                browser.open(addresses[0], width, height)
                write_bytes(folder / name, browser.screenshot())
                print(folder / name)
        finally:
            browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python -m bayes_feasible.analysis.live.screenshots DIR")
    take(Path(sys.argv[1]))
