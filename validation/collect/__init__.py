"""Measures a GPU: kernels and microbenchmarks to measured CSV, with a record of what was done.

`work.py` says what can be launched, checked and timed; `device.py` what the runner asks of a GPU; `cupy_device.py` is
that GPU through CuPy and `baselines.py` PyTorch's attention on it. `groups.py` lists what is measured, by value;
`runner.py` does it, `record.py` keeps account of it and `counters.py` reads bytes through Nsight Compute.
"""
