"""Kernels that load one part of a GPU at a time: HBM, L2, shared memory, tensor cores, other units, launches.

`programs.py` is the table of them with a check of each; `cases.py` says at which sizes they are measured, and what row
of a measured CSV each measurement becomes. The kernels are the .cu files beside these.
"""
