"""The alternative set: all parameters under which a candidate is not the best feasible one."""
