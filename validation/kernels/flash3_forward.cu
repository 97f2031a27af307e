// FlashAttention forward for Hopper: a producer warp copies by TMA, consumer warpgroups multiply by wgmma.
//
// Architectures: sm_90a
// Schedule: flash3. One CTA a Q tile; WARPS / 4 warpgroups, of which the first holds the producer and every other owns
// 64 rows. K and V tiles have STAGES buffers each, guarded by mbarriers: full when TMA has written them, empty when all
// consumers have read them. S, P, O, m and l stay in registers. A warpgroup does not overlap its softmax with its own
// products, only with those of the other one, and nothing orders the two.
//
// Sizes by -D: HEAD_DIM, TILE_Q, TILE_KV, WARPS, STAGES, CAUSAL, BF16, PANEL. Grid: Q tiles, batch x heads.
//
// Never run yet: compiled, and its machine code looked at. The shim does not emulate wgmma and TMA.
#include "attention.cuh"

constexpr int WARPGROUP = 128, CONSUMERS = WARPS / 4 - 1, THREADS = 32 * WARPS;
constexpr int PANELS = HEAD_DIM / PANEL;  // PANEL columns of a TMA box: 128 bytes, as wide as the swizzle
static_assert(PANEL * sizeof(u16) == 128, "the swizzle is 128 bytes wide");
constexpr int Q_ELEMENTS = TILE_Q * HEAD_DIM, KV_ELEMENTS = TILE_KV * HEAD_DIM;
constexpr int BARRIERS = 1 + 4 * STAGES;  // Q full; K and V of every stage full and empty
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = CONSUMERS == 2 ? 240 : 160;
static_assert(CONSUMERS * 64 == TILE_Q, "a consumer warpgroup owns 64 rows");
static_assert(CONSUMERS == 2 || CONSUMERS == 3, "registers of a CTA are divided for three or four warpgroups");
DYNAMIC_SMEM((Q_ELEMENTS + 2 * STAGES * KV_ELEMENTS) * sizeof(u16) + BARRIERS * sizeof(u64))

// A tile as TMA writes it: panels of PANEL columns behind each other.
template <int ROWS>
__device__ __forceinline__ void load_panels(u16* tile, const TensorMap* map, u64* full, int row, int head) {
    mbarrier_arrive_expect_bytes(full, ROWS * HEAD_DIM * sizeof(u16));
#pragma unroll
    for (int panel = 0; panel < PANELS; ++panel)
        tma_load(tile + panel * ROWS * PANEL, map, full, panel * PANEL, row, head);
}

// Q, K, V as tensors of (batch x heads, N, HEAD_DIM) with boxes of one head, TILE_Q or TILE_KV rows and 64 columns
// under the 128-byte swizzle. O: the same shape as Q. lse: (batch x heads, seqlen_q), or null. scale: factor on the
// scores.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    flash3_forward(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                   const __grid_constant__ TensorMap v_map, u16* __restrict__ o, float* __restrict__ lse, int seqlen_q,
                   int seqlen_k, float scale) {
    u16* q_tile = reinterpret_cast<u16*>(dynamic_smem);
    u16* k_tiles = q_tile + Q_ELEMENTS;
    u16* v_tiles = k_tiles + STAGES * KV_ELEMENTS;
    u64* q_full = reinterpret_cast<u64*>(v_tiles + STAGES * KV_ELEMENTS);
    u64 *k_full = q_full + 1, *k_empty = k_full + STAGES, *v_full = k_empty + STAGES, *v_empty = v_full + STAGES;
    const int first_row = blockIdx.x * TILE_Q, head = blockIdx.y, warpgroup = threadIdx.x / WARPGROUP;
    const int shift = seqlen_k - seqlen_q;

    int tiles = (seqlen_k + TILE_KV - 1) / TILE_KV;
    if (CAUSAL) tiles = max(1, min(tiles, (first_row + TILE_Q + shift + TILE_KV - 1) / TILE_KV));

    if (threadIdx.x == 0) {
        mbarrier_init(q_full, 1);
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(k_full + stage, 1);
            mbarrier_init(v_full + stage, 1);
            mbarrier_init(k_empty + stage, 4 * CONSUMERS);  // every consumer warp arrives
            mbarrier_init(v_empty + stage, 4 * CONSUMERS);
        }
        mbarrier_fence_init();
    }
    __syncthreads();

    if (warpgroup == 0) {
        keep_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x != 0) return;
        load_panels<TILE_Q>(q_tile, &q_map, q_full, first_row, head);
#pragma unroll 1
        for (int j = 0; j < tiles; ++j) {
            const int stage = j % STAGES;
            const u32 parity = j / STAGES % 2;
            mbarrier_wait(k_empty + stage, parity ^ 1);
            load_panels<TILE_KV>(k_tiles + stage * KV_ELEMENTS, &k_map, k_full + stage, j * TILE_KV, head);
            mbarrier_wait(v_empty + stage, parity ^ 1);
            load_panels<TILE_KV>(v_tiles + stage * KV_ELEMENTS, &v_map, v_full + stage, j * TILE_KV, head);
        }
        return;
    }

    take_registers<CONSUMER_REGISTERS>();
    const int group_row = (warpgroup - 1) * 64, row = first_row + group_row + warp_index() % 4 * 16;
    const bool is_warp_leader = lane_index() == 0;
    float o_sums[1][HEAD_DIM / 8][4], m[1][2] = {{-infinity(), -infinity()}}, l[1][2] = {};
    clear(o_sums);
    mbarrier_wait(q_full, 0);
#pragma unroll 1
    for (int j = 0; j < tiles; ++j) {
        const int stage = j % STAGES, first_key = j * TILE_KV;
        const u32 parity = j / STAGES % 2;
        const u16* k_tile = k_tiles + stage * KV_ELEMENTS;
        const u16* v_tile = v_tiles + stage * KV_ELEMENTS;

        float s[1][TILE_KV / 8][4];
        mbarrier_wait(k_full + stage, parity);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < HEAD_DIM; k += 16) {
            const int panel = k / PANEL, col = k % PANEL;
            wgmma_transposed(s[0], wgmma_descriptor(q_tile + (panel * TILE_Q + group_row) * PANEL + col, 0),
                             wgmma_descriptor(k_tile + panel * TILE_KV * PANEL + col, 0), k > 0);
        }
        wgmma_commit();
        wgmma_wait<0>();
        if (is_warp_leader) mbarrier_arrive(k_empty + stage);

        if (first_key + TILE_KV > seqlen_k || (CAUSAL && first_key + TILE_KV - 1 > row + shift))
            mask_scores<CAUSAL>(s, row, first_key, seqlen_k, shift);
        online_softmax(s, o_sums, m, l, scale * LOG2_E);

        u32 p[TILE_KV / 16][4];
#pragma unroll
        for (int k = 0; k < TILE_KV / 16; ++k) pack_a(p[k], s[0][2 * k], s[0][2 * k + 1]);
        mbarrier_wait(v_full + stage, parity);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < TILE_KV / 16; ++k)
            wgmma(o_sums[0], p[k], wgmma_descriptor(v_tile + 16 * k * PANEL, TILE_KV * PANEL * sizeof(u16)));
        wgmma_commit();
        wgmma_wait<0>();
        if (is_warp_leader) mbarrier_arrive(v_empty + stage);
    }
    store_output(o + (size_t)head * seqlen_q * HEAD_DIM, lse ? lse + (size_t)head * seqlen_q : nullptr, o_sums, m, l,
                 row, seqlen_q, scale);
}
