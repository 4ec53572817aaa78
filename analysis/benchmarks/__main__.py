"""Run every benchmark, one after the other."""

from importlib import import_module

BENCHMARKS = ("rate", "draws", "rounds", "outcomes", "checkpoints", "study", "peers", "start_up")


def main() -> None:
    """Run the `main` of each benchmark."""
    for name in BENCHMARKS:
        import_module(f"bayes_feasible.analysis.benchmarks.{name}").main()
        print(flush=True)


if __name__ == "__main__":
    main()
