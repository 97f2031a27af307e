"""Bytes at HBM and L2 of one call, read by Nsight Compute around a process of its own.

The process runs the call once, then once more between the marks that `ncu` waits for. Of several kernels, bytes are
added up. Sectors are those that SMs ask of L2.
"""

import csv
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from validation.collect import child
from validation.collect.device import DeviceError, GroupError
from validation.collect.work import Case

SECTOR_BYTES = 32
TIMEOUT_S = 120
HBM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
L2_READS = "lts__t_sectors_srcunit_tex_op_read.sum"
L2_WRITES = "lts__t_sectors_srcunit_tex_op_write.sum"
L2_READ_HITS = "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum"
L2 = (L2_READS, L2_WRITES, L2_READ_HITS)


class MetricError(DeviceError):
    """This GPU has no counter of a name that was asked for."""


def read(case: Case, gpu: str | None) -> Mapping[str, float]:
    """The counters of a case as columns of a measured CSV; those of HBM alone where this GPU names L2's otherwise.

    Raises DeviceError with ncu's reason; GroupError without `ncu`, and where it does not end in time.
    """
    command = shutil.which("ncu")
    if command is None:
        raise GroupError("ncu is not on PATH; install Nsight Compute (nsight-compute in CUDA's package repository)")
    try:
        return columns(_profiled(command, case, gpu, (*HBM, *L2)))
    except MetricError:
        return columns(_profiled(command, case, gpu, HBM))


def _profiled(command: str, case: Case, gpu: str | None, metrics: Sequence[str]) -> str:
    keep = "none" if case.cache == "warm" else "all"
    asked = [command, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)]
    asked += ["--profile-from-start", "off", "--clock-control", "none", "--cache-control", keep]
    asked += [sys.executable, "-m", "validation", "profile-case", case.name, *(("--gpu", gpu) if gpu else ())]
    try:
        done = child.answer(asked, TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise GroupError(f"ncu did not end within {TIMEOUT_S} s on {case.name}") from None
    except OSError as error:
        raise GroupError(f"ncu did not start: {error}") from error
    if done.returncode:
        told = [
            line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line or line.startswith("error")
        ]
        raise _refusal(f"ncu ended with {done.returncode}: {told[0] if told else 'no reason given'}")
    return done.stdout


def _refusal(reason: str) -> DeviceError:
    """A MetricError where ncu's reason is about metrics, which it does not know then; a DeviceError for all else."""
    return MetricError(reason) if re.search(r"\bmetric", reason, re.IGNORECASE) else DeviceError(reason)


def columns(report: str) -> dict[str, float]:
    """ncu's raw CSV page to `dram_bytes`, `l2_read_bytes`, `l2_write_bytes`, `l2_hit_rate_pct`. Raises DeviceError."""
    table = [line for line in report.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(table))))[1:]  # the first line after the head holds units
    if not rows:
        raise DeviceError("ncu saw no kernel")

    def total(metric: str) -> float:
        try:
            return sum(float(row[metric].replace(",", "")) for row in rows)
        except ValueError:
            raise MetricError(f"ncu has no number for {metric}: {rows[0][metric]}") from None

    found = {"dram_bytes": sum(total(metric) for metric in HBM)}
    if L2_READS in rows[0]:
        reads = total(L2_READS)
        found |= {"l2_read_bytes": SECTOR_BYTES * reads, "l2_write_bytes": SECTOR_BYTES * total(L2_WRITES)}
        if reads:
            found["l2_hit_rate_pct"] = 100 * total(L2_READ_HITS) / reads
    return found
