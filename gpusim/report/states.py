"""What the time of a CTA slot goes into, named and drawn: coloured by the unit that acts, hatched for a wait."""

from dataclasses import dataclass

from matplotlib.patches import Patch

from gpusim.trace import Stall

COMPUTE_COLOUR, LOAD_COLOUR, STORE_COLOUR, QUIET_COLOUR = "#0a5236", "#0d70b7", "#9c3d06", "#6b737c"


@dataclass(frozen=True, slots=True)
class State:
    """Name, fill, outline and hatch of a bar."""

    name: str
    face: str
    edge: str
    hatch: str = ""

    def patch(self) -> Patch:
        """Its entry in a legend."""
        return Patch(facecolor=self.face, edgecolor=self.edge, hatch=self.hatch, label=self.name)


STATES: dict[Stall, State] = {
    Stall.COMPUTE: State("on the compute pipe", COMPUTE_COLOUR, COMPUTE_COLOUR),
    Stall.PIPE: State("waiting for the pipe", "white", COMPUTE_COLOUR, "////"),
    Stall.LOAD: State("waiting for tiles", LOAD_COLOUR, LOAD_COLOUR),
    Stall.SYNC: State("latency of steps", "white", QUIET_COLOUR),
    Stall.STORE: State("waiting for writes", STORE_COLOUR, STORE_COLOUR),
    Stall.LAUNCH: State("launch", QUIET_COLOUR, QUIET_COLOUR),
    Stall.IDLE: State("no CTA left", "white", QUIET_COLOUR, "...."),
}
