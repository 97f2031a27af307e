// Second kernel of attention in three: P = softmax(S), row by row.
//
// Architectures: sm_80 sm_90 sm_100
// Schedule: naive, kernel softmax. One warp a row, WARPS rows a CTA; the first HELD_CHUNKS x 256 scores of a row stay
// in registers between maximum, sum and result. What a longer row has beyond them is read three times, from L2 as a
// rule.
//
// Sizes by -D: WARPS, HELD_CHUNKS, BF16. Grid: groups of WARPS rows, batch x heads.
#include "tiles.cuh"

DYNAMIC_SMEM(0)

struct __align__(16) Chunk {
    u32 pairs[CHUNK / 2];
};

// Eight scores from column `col`; minus infinity behind the row's end.
__device__ __forceinline__ void load_scores(float* x, const u16* row, int col, int cols) {
    Chunk chunk = {};
    if (col < cols) chunk = *reinterpret_cast<const Chunk*>(row + col);
#pragma unroll
    for (int i = 0; i < CHUNK / 2; ++i) unpack2(chunk.pairs[i], x[2 * i], x[2 * i + 1]);
#pragma unroll
    for (int i = 0; i < CHUNK; ++i)
        if (col + i >= cols) x[i] = -infinity();
}

__device__ __forceinline__ void store_scaled(u16* row, const float* x, int col, int cols, float factor) {
    if (col >= cols) return;
    Chunk chunk;
#pragma unroll
    for (int i = 0; i < CHUNK / 2; ++i) chunk.pairs[i] = pack2(x[2 * i] * factor, x[2 * i + 1] * factor);
    *reinterpret_cast<Chunk*>(row + col) = chunk;
}

// S, P: (batch x heads, seqlen_q, score_stride); score_stride is seqlen_k rounded up to 8, and P is zero in between.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    naive_softmax(const u16* __restrict__ s, u16* __restrict__ p, int seqlen_q, int seqlen_k, int score_stride) {
    const int query = blockIdx.x * WARPS + warp_index(), lane = lane_index();
    if (query >= seqlen_q) return;
    const size_t start = ((size_t)blockIdx.y * seqlen_q + query) * score_stride;
    const u16* scores = s + start;
    u16* probabilities = p + start;
    constexpr int STRIDE = 32 * CHUNK;  // columns that a warp takes at a time

    float held[HELD_CHUNKS * CHUNK], x[CHUNK], top = -infinity(), sum = 0.f;
#pragma unroll
    for (int c = 0; c < HELD_CHUNKS; ++c) {
        load_scores(held + c * CHUNK, scores, c * STRIDE + lane * CHUNK, seqlen_k);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) top = fmaxf(top, held[c * CHUNK + i]);
    }
#pragma unroll 1
    for (int col = HELD_CHUNKS * STRIDE + lane * CHUNK; col < seqlen_k; col += STRIDE) {
        load_scores(x, scores, col, seqlen_k);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) top = fmaxf(top, x[i]);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));

    const float subtract = top * LOG2_E;
#pragma unroll
    for (int i = 0; i < HELD_CHUNKS * CHUNK; ++i) {
        held[i] = ex2(held[i] * LOG2_E - subtract);
        sum += held[i];
    }
#pragma unroll 1
    for (int col = HELD_CHUNKS * STRIDE + lane * CHUNK; col < seqlen_k; col += STRIDE) {
        load_scores(x, scores, col, seqlen_k);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) sum += ex2(x[i] * LOG2_E - subtract);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);

    const float factor = 1.f / sum;
#pragma unroll
    for (int c = 0; c < HELD_CHUNKS; ++c)
        store_scaled(probabilities, held + c * CHUNK, c * STRIDE + lane * CHUNK, seqlen_k, factor);
#pragma unroll 1
    for (int col = HELD_CHUNKS * STRIDE + lane * CHUNK; col < seqlen_k; col += STRIDE) {
        load_scores(x, scores, col, seqlen_k);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) x[i] = ex2(x[i] * LOG2_E - subtract);
        store_scaled(probabilities, x, col, seqlen_k, factor);
    }
}
