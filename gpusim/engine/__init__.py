"""Graph × machine → time: SimPy runs kernels, CTA slots and tile loads in integer picoseconds.

`lower.py` turns a kernel's program into tables of phases once; `cta.py` walks them for one CTA slot on SimPy, and
`loop.py`, compiled by `compiled.py`, walks the same tables for all slots with the same result; `slots.py` holds both.
`simulate.py` runs kernels one after another and collects the counters. Warps inside a CTA are folded into one role;
clusters and persistent grids are not modelled. The engine never sees a schedule's name.
"""

from gpusim.engine.simulate import KernelRun, Mode, Simulation, estimated_steps, run_mode, simulate

__all__ = ["KernelRun", "Mode", "Simulation", "estimated_steps", "run_mode", "simulate"]
