"""Functions that are called a few times only."""

from pytensor.compile.mode import Mode

# No code is generated, which would take a minute, but the expressions are rewritten for numerical
# stability, which `FAST_COMPILE` leaves out: log(1 - sigmoid(x)) would be -inf from x = 37 on.
INTERPRETED = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace", "BlasOpt")
