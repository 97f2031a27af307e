"""A schedule of your own: attention for short sequences, with all of K and V kept in shared memory.

One CTA a head loads K and V once and lets the Q tiles pass by. A row of scores is complete after one product, so the
softmax needs no running maximum. Fused BERT kernels work like this; it fits as long as K and V fit an SM.

Run it with `python docs/own_schedule.py`. The same task graph is read three times: on NumPy, to show that it
computes attention; in closed form, for its bytes; and on a simulated A100, for its time.
"""

import numpy as np

from gpusim import (
    AttentionWorkload,
    Conditions,
    DType,
    KernelBuilder,
    Role,
    TaskGraph,
    Tensor,
    kernel_work,
    load_gpu,
    occupancy,
    simulate,
)
from gpusim.numeric import attention_reference, execute, inputs_for
from gpusim.taskgraph import MatMul, RowSoftmax, check_graph
from gpusim.units import ms_from_ps
from gpusim.workloads import compulsory_bytes

GPU = "a100_sxm4_40gb"
WORKLOAD = AttentionWorkload(batch=4, heads=16, seqlen_q=384, seqlen_k=384, head_dim=64)


def resident_attention(workload: AttentionWorkload, *, tile_q: int = 64, warps: int = 8) -> TaskGraph:
    """One kernel, one CTA a head: K and V resident, Q tiles of `tile_q` rows passing, O written once."""
    heads = workload.batch * workload.heads
    n_q, n_k, d = workload.seqlen_q, workload.seqlen_k, workload.head_dim

    # 1. Tensors in device memory, cut into the tiles that loads and stores move: K and V in one piece, Q and O in rows.
    q_tensor = Tensor("Q", heads, n_q, d, DType.FP16, Role.INPUT, tile_q, d)
    k_tensor = Tensor("K", heads, n_k, d, DType.FP16, Role.INPUT, n_k, d)
    v_tensor = Tensor("V", heads, n_k, d, DType.FP16, Role.INPUT, n_k, d)
    o_tensor = Tensor("O", heads, n_q, d, DType.FP16, Role.OUTPUT, tile_q, d)

    # 2. Buffers of one CTA. Two stages let the next Q tile arrive while this one is worked on.
    cta = KernelBuilder("resident_attention", grid=[("head", heads)], warps=warps, compute_dtype=DType.FP16)
    k = cta.buffer("K", n_k, d)
    v = cta.buffer("V", n_k, d)
    q = cta.buffer("Q", tile_q, d, stages=2)
    s = cta.accumulator("S", tile_q, n_k)
    o = cta.accumulator("O", tile_q, d)

    # 3. The program, in the order a CUDA kernel would be written; the dependencies follow from it.
    cta.load(k_tensor.tile(), k)
    cta.load(v_tensor.tile(), v)
    with cta.loop("i", q_tensor.row_tiles):
        cta.load(q_tensor.tile(row="i"), q)
        cta.do("S = Q Kᵀ / √d", MatMul(q, k, s, transpose_b=True, scale=d**-0.5))
        cta.do("P = softmax(S)", RowSoftmax(s))
        cta.do("O = P V", MatMul(s, v, o))
        cta.store(o, o_tensor.tile(row="i"))
    return TaskGraph((cta.build(),))


def largest_error() -> float:
    """Largest difference from float64 attention, both computed in float64, for two of the heads."""
    workload = WORKLOAD.model_copy(update={"batch": 1, "heads": 2, "kv_heads": 2})
    inputs = inputs_for(workload, seed=0)
    output = execute(resident_attention(workload), inputs)["O"]
    return float(np.abs(output - attention_reference(inputs["Q"], inputs["K"], inputs["V"])).max())


def main() -> None:
    """Prints what the three readers say."""
    graph, spec = resident_attention(WORKLOAD), load_gpu(GPU)
    check_graph(graph)
    (kernel,) = graph.kernels
    work, resident = kernel_work(kernel), occupancy(kernel, spec)
    run = simulate(graph, spec, Conditions(timing="ncu"))
    print(f"max error      {largest_error():.1e}")
    print(f"asked of L2    {work.read_bytes + work.write_bytes:,} B (compulsory {compulsory_bytes(WORKLOAD):,} B)")
    print(f"read from HBM  {sum(done.hbm_read_bytes for done in run.kernels):,} B")
    print(f"CTAs per SM    {resident.ctas_per_sm}, limited by {resident.limited_by}")
    print(f"latency        {ms_from_ps(run.latency_ps):.4f} ms on {spec.name}")


if __name__ == "__main__":
    main()
