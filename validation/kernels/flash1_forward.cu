// FlashAttention forward in the FA-1 order: K/V blocks outside, Q tiles inside; O, m and l travel through device
// memory.
//
// Architectures: sm_80 sm_90 sm_100
// Schedule: flash1. One CTA a head; a warp owns TILE_Q / WARPS rows of the Q tile. Tiles come by cp.async, nothing is
// prefetched (one stage). Between two K/V blocks O, not yet divided by l, and m and l are fp32 in device memory; the
// first block starts them on chip.
//
// Sizes by -D: HEAD_DIM, TILE_Q, TILE_KV, WARPS, BF16, and CTAS_PER_SM, for which registers must suffice. Grid: batch x
// heads.
#include "attention.cuh"

constexpr int THREADS = 32 * WARPS, MT = TILE_Q / (16 * WARPS), OT = HEAD_DIM / 8;
constexpr int Q_ELEMENTS = TILE_Q * HEAD_DIM, KV_ELEMENTS = TILE_KV * HEAD_DIM;
static_assert(MT * 16 * WARPS == TILE_Q, "every warp owns as many bands of 16 rows");
DYNAMIC_SMEM((Q_ELEMENTS + 2 * KV_ELEMENTS) * sizeof(u16))

// Q, K, V, O: (batch x heads, N, HEAD_DIM); o_partial the same in fp32; m_partial, l_partial: (batch x heads,
// seqlen_q). lse: as m_partial, or null. scale: factor on the scores.
extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    flash1_forward(const u16* __restrict__ q, const u16* __restrict__ k, const u16* __restrict__ v, u16* __restrict__ o,
                   float* o_partial, float* m_partial, float* l_partial, float* __restrict__ lse, int seqlen_q,
                   int seqlen_k, float scale) {
    u16* q_tile = reinterpret_cast<u16*>(dynamic_smem);
    u16* k_tile = q_tile + Q_ELEMENTS;
    u16* v_tile = k_tile + KV_ELEMENTS;
    const int head = blockIdx.x, warp_row = warp_index() * 16 * MT;
    const size_t head_rows = (size_t)head * seqlen_q, head_keys = (size_t)head * seqlen_k;
    const int blocks = (seqlen_k + TILE_KV - 1) / TILE_KV, q_tiles = (seqlen_q + TILE_Q - 1) / TILE_Q;

#pragma unroll 1
    for (int j = 0; j < blocks; ++j) {
        const int first_key = j * TILE_KV;
        load_tile<TILE_KV, HEAD_DIM, THREADS>(k_tile, k + (head_keys + first_key) * HEAD_DIM, HEAD_DIM,
                                              seqlen_k - first_key, HEAD_DIM);
        load_tile<TILE_KV, HEAD_DIM, THREADS>(v_tile, v + (head_keys + first_key) * HEAD_DIM, HEAD_DIM,
                                              seqlen_k - first_key, HEAD_DIM);
#pragma unroll 1
        for (int i = 0; i < q_tiles; ++i) {
            const int first_row = i * TILE_Q, row = first_row + warp_row;
            load_tile<TILE_Q, HEAD_DIM, THREADS>(q_tile, q + (head_rows + first_row) * HEAD_DIM, HEAD_DIM,
                                                 seqlen_q - first_row, HEAD_DIM);
            cp_async_commit();

            float o_sums[MT][OT][4], m[MT][2], l[MT][2];
#pragma unroll
            for (int mt = 0; mt < MT; ++mt)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int query = row + 16 * mt + fragment_row(2 * h);
                    const bool continues = j > 0 && query < seqlen_q;
                    m[mt][h] = continues ? m_partial[head_rows + query] : -infinity();
                    l[mt][h] = continues && lane_index() % 4 == 0 ? l_partial[head_rows + query] : 0.f;
#pragma unroll
                    for (int ot = 0; ot < OT; ++ot) {
                        const float* from = o_partial + (head_rows + query) * HEAD_DIM + 8 * ot + fragment_col(0);
                        o_sums[mt][ot][2 * h] = continues ? from[0] : 0.f;
                        o_sums[mt][ot][2 * h + 1] = continues ? from[1] : 0.f;
                    }
                }
            cp_async_wait<0>();
            __syncthreads();  // all of the tiles has landed

            float s[MT][TILE_KV / 8][4];
            clear(s);
            multiply<HEAD_DIM, HEAD_DIM, HEAD_DIM, true>(s, q_tile, warp_row, k_tile, 0);
            if (first_key + TILE_KV > seqlen_k) mask_scores<false>(s, row, first_key, seqlen_k, 0);
            online_softmax(s, o_sums, m, l, scale * LOG2_E);
            accumulate_pv<HEAD_DIM>(o_sums, s, v_tile);

            if (j == blocks - 1) {
                store_output(o + head_rows * HEAD_DIM, lse ? lse + head_rows : nullptr, o_sums, m, l, row, seqlen_q,
                             scale);
            } else {
#pragma unroll
                for (int mt = 0; mt < MT; ++mt)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        const int query = row + 16 * mt + fragment_row(2 * h);
                        const float sum = row_sum(l[mt][h]);
                        if (query >= seqlen_q) continue;
                        if (lane_index() % 4 == 0)
                            m_partial[head_rows + query] = m[mt][h], l_partial[head_rows + query] = sum;
#pragma unroll
                        for (int ot = 0; ot < OT; ++ot) {
                            float* to = o_partial + (head_rows + query) * HEAD_DIM + 8 * ot + fragment_col(0);
                            to[0] = o_sums[mt][ot][2 * h];
                            to[1] = o_sums[mt][ot][2 * h + 1];
                        }
                    }
            }
            __syncthreads();  // nobody reads the tiles any more; m and l are there for the row's other lanes
        }
    }
}
