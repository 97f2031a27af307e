// FlashAttention forward in the FA-2 order: a Q tile stays, K and V stream past it, O is written once.
//
// Architectures: sm_80 sm_90 sm_100
// Schedule: flash2. One CTA a Q tile; a warp owns TILE_Q / WARPS rows. K and V tiles come by cp.async into STAGES
// buffers, one barrier a K/V tile. S, P, O, m and l stay in registers.
//
// Sizes by -D: HEAD_DIM, TILE_Q, TILE_KV, WARPS, STAGES (2 or more), CAUSAL, BF16, and CTAS_PER_SM, for which registers
// must suffice. Grid: Q tiles, batch x heads.
#include "attention.cuh"

constexpr int THREADS = 32 * WARPS, MT = TILE_Q / (16 * WARPS);
constexpr int Q_ELEMENTS = TILE_Q * HEAD_DIM, KV_ELEMENTS = TILE_KV * HEAD_DIM;
static_assert(MT * 16 * WARPS == TILE_Q, "every warp owns as many bands of 16 rows");
static_assert(STAGES >= 2, "the next tile arrives while this one is used");
DYNAMIC_SMEM((Q_ELEMENTS + 2 * STAGES * KV_ELEMENTS) * sizeof(u16))

// Q, K, V, O: (batch x heads, N, HEAD_DIM). lse: (batch x heads, seqlen_q), or null. scale: factor on the scores.
extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    flash2_forward(const u16* __restrict__ q, const u16* __restrict__ k, const u16* __restrict__ v, u16* __restrict__ o,
                   float* __restrict__ lse, int seqlen_q, int seqlen_k, float scale) {
    u16* q_tile = reinterpret_cast<u16*>(dynamic_smem);
    u16* k_tiles = q_tile + Q_ELEMENTS;
    u16* v_tiles = k_tiles + STAGES * KV_ELEMENTS;
    const int first_row = blockIdx.x * TILE_Q, head = blockIdx.y, warp_row = warp_index() * 16 * MT;
    const int shift = seqlen_k - seqlen_q;
    const u16* k_head = k + (size_t)head * seqlen_k * HEAD_DIM;
    const u16* v_head = v + (size_t)head * seqlen_k * HEAD_DIM;

    int tiles = (seqlen_k + TILE_KV - 1) / TILE_KV;
    if (CAUSAL) tiles = max(1, min(tiles, (first_row + TILE_Q + shift + TILE_KV - 1) / TILE_KV));

    auto load_kv = [&](int j) {
        if (j < tiles) {
            const int row = j * TILE_KV, stage = j % STAGES;
            load_tile<TILE_KV, HEAD_DIM, THREADS>(k_tiles + stage * KV_ELEMENTS, k_head + (size_t)row * HEAD_DIM,
                                                  HEAD_DIM, seqlen_k - row, HEAD_DIM);
            load_tile<TILE_KV, HEAD_DIM, THREADS>(v_tiles + stage * KV_ELEMENTS, v_head + (size_t)row * HEAD_DIM,
                                                  HEAD_DIM, seqlen_k - row, HEAD_DIM);
        }
        cp_async_commit();
    };
    load_tile<TILE_Q, HEAD_DIM, THREADS>(q_tile, q + ((size_t)head * seqlen_q + first_row) * HEAD_DIM, HEAD_DIM,
                                         seqlen_q - first_row, HEAD_DIM);
#pragma unroll
    for (int j = 0; j < STAGES - 1; ++j) load_kv(j);

    float o_sums[MT][HEAD_DIM / 8][4], m[MT][2], l[MT][2];
    clear(o_sums);
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int h = 0; h < 2; ++h) m[mt][h] = -infinity(), l[mt][h] = 0.f;

#pragma unroll 1
    for (int j = 0; j < tiles; ++j) {
        cp_async_wait<STAGES - 2>();  // tile j, as far as this thread copied it
        __syncthreads();              // all of tile j; and nobody reads tile j - 1 any more
        load_kv(j + STAGES - 1);

        const int stage = j % STAGES, first_key = j * TILE_KV;
        float s[MT][TILE_KV / 8][4];
        clear(s);
        multiply<HEAD_DIM, HEAD_DIM, HEAD_DIM, true>(s, q_tile, warp_row, k_tiles + stage * KV_ELEMENTS, 0);
        if (first_key + TILE_KV > seqlen_k || (CAUSAL && first_key + TILE_KV - 1 > first_row + warp_row + shift))
            mask_scores<CAUSAL>(s, first_row + warp_row, first_key, seqlen_k, shift);
        online_softmax(s, o_sums, m, l, scale * LOG2_E);
        accumulate_pv<HEAD_DIM>(o_sums, s, v_tiles + stage * KV_ELEMENTS);
    }
    store_output(o + (size_t)head * seqlen_q * HEAD_DIM, lse ? lse + (size_t)head * seqlen_q : nullptr, o_sums, m, l,
                 first_row + warp_row, seqlen_q, scale);
}
