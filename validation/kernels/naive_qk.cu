// First kernel of attention in three: S = scale Q K^T, written to device memory.
//
// Architectures: sm_80 sm_90 sm_100
// Schedule: naive, kernel qk. One CTA a TILE_Q x TILE_KV tile of S; a warp computes WARP_ROWS x WARP_COLS of it. The
// head dim is one step, loaded by cp.async and not prefetched.
//
// Sizes by -D: HEAD_DIM, TILE_Q, TILE_KV, WARPS, WARP_ROWS, WARP_COLS, BF16, and CTAS_PER_SM, for which registers must
// suffice. Grid: key tiles, query tiles, batch x heads.
#include "tiles.cuh"

constexpr int THREADS = 32 * WARPS, MT = WARP_ROWS / 16, NT = WARP_COLS / 8;
static_assert(TILE_Q / WARP_ROWS * (TILE_KV / WARP_COLS) == WARPS, "warp tiles fill the tile");
DYNAMIC_SMEM((TILE_Q + TILE_KV) * HEAD_DIM * sizeof(u16))

// Q, K: (batch x heads, N, HEAD_DIM). S: (batch x heads, seqlen_q, score_stride), of which seqlen_k columns are
// written.
extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    naive_qk(const u16* __restrict__ q, const u16* __restrict__ k, u16* __restrict__ s, int seqlen_q, int seqlen_k,
             int score_stride, float scale) {
    u16* q_tile = reinterpret_cast<u16*>(dynamic_smem);
    u16* k_tile = q_tile + TILE_Q * HEAD_DIM;
    const int first_key = blockIdx.x * TILE_KV, first_row = blockIdx.y * TILE_Q, head = blockIdx.z;
    const int warp_row = warp_index() / (TILE_KV / WARP_COLS) * WARP_ROWS,
              warp_col = warp_index() % (TILE_KV / WARP_COLS) * WARP_COLS;

    load_tile<TILE_Q, HEAD_DIM, THREADS>(q_tile, q + ((size_t)head * seqlen_q + first_row) * HEAD_DIM, HEAD_DIM,
                                         seqlen_q - first_row, HEAD_DIM);
    load_tile<TILE_KV, HEAD_DIM, THREADS>(k_tile, k + ((size_t)head * seqlen_k + first_key) * HEAD_DIM, HEAD_DIM,
                                          seqlen_k - first_key, HEAD_DIM);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();

    float sums[MT][NT][4];
    clear(sums);
    multiply<HEAD_DIM, HEAD_DIM, HEAD_DIM, true>(sums, q_tile, warp_row, k_tile, warp_col);
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int query = first_row + warp_row + 16 * mt + fragment_row(2 * h);
            if (query >= seqlen_q) continue;
            u16* row = s + ((size_t)head * seqlen_q + query) * score_stride;
#pragma unroll
            for (int nt = 0; nt < NT; ++nt)
                store_pair(row, first_key + warp_col + 8 * nt + fragment_col(0), seqlen_k, sums[mt][nt][2 * h] * scale,
                           sums[mt][nt][2 * h + 1] * scale);
        }
}
