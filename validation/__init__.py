"""Does the simulator match hardware? Measured data with sources, the trust list, and the table of errors."""
