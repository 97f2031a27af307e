// Third kernel of attention in three: O = P V.
//
// Architectures: sm_80 sm_90 sm_100
// Schedule: naive, kernel pv. One CTA a TILE_Q x HEAD_DIM tile of O; a warp computes WARP_ROWS x WARP_COLS of it. The
// loop advances by STEP keys; tiles of P and V come by cp.async into STAGES buffers, one barrier a step.
//
// Sizes by -D: HEAD_DIM, TILE_Q, STEP, WARPS, WARP_ROWS, WARP_COLS, STAGES (2 or more), BF16, and CTAS_PER_SM, for
// which registers must suffice. Grid: 1, query tiles, batch x heads.
#include "tiles.cuh"

constexpr int THREADS = 32 * WARPS, MT = WARP_ROWS / 16, NT = WARP_COLS / 8;
constexpr int P_ELEMENTS = TILE_Q * STEP, V_ELEMENTS = STEP * HEAD_DIM;
static_assert(TILE_Q / WARP_ROWS * (HEAD_DIM / WARP_COLS) == WARPS, "warp tiles fill the tile");
static_assert(STAGES >= 2, "the next tiles arrive while these are used");
DYNAMIC_SMEM((P_ELEMENTS + V_ELEMENTS) * STAGES * sizeof(u16))

// P: (batch x heads, seqlen_q, score_stride), zero between seqlen_k and score_stride. V, O: (batch x heads, N,
// HEAD_DIM).
extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    naive_pv(const u16* __restrict__ p, const u16* __restrict__ v, u16* __restrict__ o, int seqlen_q, int seqlen_k,
             int score_stride) {
    u16* p_tiles = reinterpret_cast<u16*>(dynamic_smem);
    u16* v_tiles = p_tiles + STAGES * P_ELEMENTS;
    const int first_row = blockIdx.y * TILE_Q, head = blockIdx.z, steps = (seqlen_k + STEP - 1) / STEP;
    const int warp_row = warp_index() / (HEAD_DIM / WARP_COLS) * WARP_ROWS,
              warp_col = warp_index() % (HEAD_DIM / WARP_COLS) * WARP_COLS;
    const u16* p_rows = p + ((size_t)head * seqlen_q + first_row) * score_stride;
    const u16* v_head = v + (size_t)head * seqlen_k * HEAD_DIM;

    auto load = [&](int step) {
        if (step < steps) {
            const int key = step * STEP, stage = step % STAGES;
            load_tile<TILE_Q, STEP, THREADS>(p_tiles + stage * P_ELEMENTS, p_rows + key, score_stride,
                                             seqlen_q - first_row, score_stride - key);
            load_tile<STEP, HEAD_DIM, THREADS>(v_tiles + stage * V_ELEMENTS, v_head + (size_t)key * HEAD_DIM, HEAD_DIM,
                                               seqlen_k - key, HEAD_DIM);
        }
        cp_async_commit();
    };
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) load(step);

    float sums[MT][NT][4];
    clear(sums);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        cp_async_wait<STAGES - 2>();  // this step's tiles, as far as this thread copied them
        __syncthreads();              // all of them; and nobody reads those of the step before any more
        load(step + STAGES - 1);
        const int stage = step % STAGES;
        multiply<STEP, STEP, HEAD_DIM, false>(sums, p_tiles + stage * P_ELEMENTS, warp_row,
                                              v_tiles + stage * V_ELEMENTS, warp_col);
    }
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int query = first_row + warp_row + 16 * mt + fragment_row(2 * h);
            if (query >= seqlen_q) continue;
            u16* row = o + ((size_t)head * seqlen_q + query) * HEAD_DIM;
#pragma unroll
            for (int nt = 0; nt < NT; ++nt)
                store_pair(row, warp_col + 8 * nt + fragment_col(0), HEAD_DIM, sums[mt][nt][2 * h],
                           sums[mt][nt][2 * h + 1]);
        }
}
