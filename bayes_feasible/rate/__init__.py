"""The optimal rate, exponents and designs."""
