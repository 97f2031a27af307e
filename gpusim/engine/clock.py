"""SimPy's environment, with its clock known to be integer picoseconds."""

from typing import TYPE_CHECKING

import simpy

if TYPE_CHECKING:

    class Environment(simpy.Environment):
        """SimPy lets time be a float; every delay here is a whole number, so time is one too."""

        @property
        def now(self) -> int:
            """Simulated time in ps."""
            ...

else:
    Environment = simpy.Environment
