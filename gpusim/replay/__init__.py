"""Replays: small scenarios run once for time and once for numbers, joined into the data of the replay page.

The engine says when every transfer and task happens, the numeric executor what every buffer holds after it; `lanes`
joins the two step by step, so neither the order nor a number on the page is scripted. Leaves out drawing (that is
`report.replay`) and machines whose SRAM is too large to draw. Start with `demos.py`; `values.py` watches the executor,
`sentences.py` narrates.
"""

from gpusim.replay.demos import GALLERY, SEED, BuiltReplay, build_replay

__all__ = ["GALLERY", "SEED", "BuiltReplay", "build_replay"]
