// What both FlashAttention orders do with a tile of scores. A warp owns 16 MT rows; m, l and O stay with its lanes.
#pragma once
#include "tiles.cuh"


// Minus infinity where the key is behind the sequence or, under a causal mask, after the query: key > row + shift.
// The scores start at query `row` and key `col`.
template <bool IS_CAUSAL, int MT, int NT>
__device__ __forceinline__ void mask_scores(float (&s)[MT][NT][4], int row, int col, int seqlen_k, int shift) {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int nt = 0; nt < NT; ++nt)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int query = row + 16 * mt + fragment_row(i), key = col + 8 * nt + fragment_col(i);
                if (key >= seqlen_k || (IS_CAUSAL && key > query + shift)) s[mt][nt][i] = -infinity();
            }
}

__device__ __forceinline__ float row_max(float x) {  // over the four lanes of a row
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// One tile of the running softmax: s becomes e^(scale s - m), O and l follow the new maximum. m is that of the raw
// scores; l is a lane's share of the row sum. A row that has seen no key keeps l = 0.
template <int MT, int NT, int OT>
__device__ __forceinline__ void online_softmax(float (&s)[MT][NT][4], float (&o)[MT][OT][4], float (&m)[MT][2],
                                               float (&l)[MT][2], float scale_log2) {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int h = 0; h < 2; ++h) {  // rows lane / 4 and lane / 4 + 8
            float top = m[mt][h];
#pragma unroll
            for (int nt = 0; nt < NT; ++nt) top = fmaxf(top, fmaxf(s[mt][nt][2 * h], s[mt][nt][2 * h + 1]));
            top = row_max(top);
            const float subtract = (top == -infinity() ? 0.f : top) * scale_log2;
            const float alpha = ex2(m[mt][h] * scale_log2 - subtract);
            float sum = 0.f;
#pragma unroll
            for (int nt = 0; nt < NT; ++nt)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; ++e) {
                    s[mt][nt][e] = ex2(s[mt][nt][e] * scale_log2 - subtract);
                    sum += s[mt][nt][e];
                }
            m[mt][h] = top;
            l[mt][h] = l[mt][h] * alpha + sum;
#pragma unroll
            for (int ot = 0; ot < OT; ++ot)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; ++e) o[mt][ot][e] *= alpha;
        }
}

// The accumulators of two score tiles side by side are, rounded, an A operand of the next product.
__device__ __forceinline__ void pack_a(u32 (&a)[4], const float (&left)[4], const float (&right)[4]) {
    a[0] = pack2(left[0], left[1]);
    a[1] = pack2(left[2], left[3]);
    a[2] = pack2(right[0], right[1]);
    a[3] = pack2(right[2], right[3]);
}

// O += P V.
template <int COLS, int MT, int NT, int OT>
__device__ __forceinline__ void accumulate_pv(float (&o)[MT][OT][4], const float (&p)[MT][NT][4], const u16* v_tile) {
#pragma unroll
    for (int nt = 0; nt < NT; nt += 2) {
        u32 a[MT][4];
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) pack_a(a[mt], p[mt][nt], p[mt][nt + 1]);
#pragma unroll
        for (int ot = 0; ot < OT; ot += 2) {
            u32 b[4];
            load_b<COLS>(b, v_tile, 8 * ot, 8 * nt);
#pragma unroll
            for (int mt = 0; mt < MT; ++mt) {
                mma_m16n8k16(o[mt][ot], a[mt], b[0], b[1]);
                mma_m16n8k16(o[mt][ot + 1], a[mt], b[2], b[3]);
            }
        }
    }
}

// O / l, and where lse is not null m + log l, for the rows of one head from `row`; both pointers are the head's.
template <int MT, int OT>
__device__ __forceinline__ void store_output(u16* o_head, float* lse_head, const float (&o)[MT][OT][4],
                                             const float (&m)[MT][2], const float (&l)[MT][2], int row, int seqlen_q,
                                             float scale) {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int query = row + 16 * mt + fragment_row(2 * h);
            const float sum = row_sum(l[mt][h]), factor = sum > 0.f ? 1.f / sum : 0.f;
            if (query >= seqlen_q) continue;
#pragma unroll
            for (int ot = 0; ot < OT; ++ot)
                *reinterpret_cast<u32*>(o_head + (size_t)query * (8 * OT) + 8 * ot + fragment_col(0)) =
                    pack2(o[mt][ot][2 * h] * factor, o[mt][ot][2 * h + 1] * factor);
            if (lse_head && lane_index() % 4 == 0) lse_head[query] = m[mt][h] * scale + logf(sum);
        }
}
