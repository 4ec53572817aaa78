"""The probability of error under any PyMC model."""
