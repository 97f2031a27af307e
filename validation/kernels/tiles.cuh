// Tiles in shared memory, and the fragments that the matrix units read from them.
//
// A tile is rows x COLS elements without padding. The 16-byte chunks of a row are permuted by XOR with the row number,
// so that the eight rows which ldmatrix reads at a time lie in eight different bank groups.
#pragma once
#include "ptx.cuh"

constexpr int CHUNK = 8;  // elements of 16 bytes

__device__ __forceinline__ int warp_index() { return threadIdx.x / 32; }
__device__ __forceinline__ int lane_index() { return threadIdx.x % 32; }

template <int COLS>
__device__ __forceinline__ int offset_in_tile(int row, int chunk) {
    static_assert(COLS % 64 == 0, "the permutation needs rows of at least eight chunks");
    return row * COLS + (chunk ^ (row % 8)) * CHUNK;
}

// Starts the copy of a ROWS x COLS tile whose first element is `src`, in a matrix of which `rows` rows and `cols`
// columns (a multiple of 8) are left from there. What lies outside is zero.
template <int ROWS, int COLS, int THREADS>
__device__ __forceinline__ void load_tile(u16* tile, const u16* src, int stride, int rows, int cols) {
    constexpr int ROW_CHUNKS = COLS / CHUNK, ROWS_AT_ONCE = THREADS / ROW_CHUNKS;
    static_assert(THREADS % ROW_CHUNKS == 0 && ROWS % ROWS_AT_ONCE == 0, "every thread copies as many chunks");
    static_assert(ROWS_AT_ONCE % 8 == 0, "a thread's chunks lie in the same permuted column");
    const int row = threadIdx.x / ROW_CHUNKS, chunk = threadIdx.x % ROW_CHUNKS;
    u16* to = tile + offset_in_tile<COLS>(row, chunk);
    const u16* from = src + (size_t)row * stride + chunk * CHUNK;
    const int rows_from_here = chunk * CHUNK < cols ? rows - row : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i += ROWS_AT_ONCE)
        cp_async16(to + i * COLS, from + (size_t)i * stride, i < rows_from_here);
}

// A operand: 16 rows from `row`, 16 columns from `col`.
template <int COLS>
__device__ __forceinline__ void load_a(u32 (&a)[4], const u16* tile, int row, int col) {
    const int lane = lane_index();
    ldmatrix_x4(a, tile + offset_in_tile<COLS>(row + lane % 16, col / CHUNK + lane / 16));
}

// Two B operands from a tile that holds B transposed (K in QK^T): B columns n .. n + 15 are tile rows, inner index from
// k.
template <int COLS>
__device__ __forceinline__ void load_b_transposed(u32 (&b)[4], const u16* tile, int n, int k) {
    const int lane = lane_index();
    ldmatrix_x4(b, tile + offset_in_tile<COLS>(n + lane % 8 + lane / 16 * 8, k / CHUNK + lane / 8 % 2));
}

// Two B operands from a tile that holds B as it is (V in PV): inner index from k, B columns n .. n + 15.
template <int COLS>
__device__ __forceinline__ void load_b(u32 (&b)[4], const u16* tile, int n, int k) {
    const int lane = lane_index();
    ldmatrix_x4_trans(b, tile + offset_in_tile<COLS>(k + lane % 16, n / CHUNK + lane / 16));
}

// sums[MT][NT] are MT x NT accumulators of 16 x 8. A lane holds elements i = 0 .. 3 of each: row fragment_row(i),
// column fragment_col(i).
__device__ __forceinline__ int fragment_row(int i) { return lane_index() / 4 + i / 2 * 8; }
__device__ __forceinline__ int fragment_col(int i) { return lane_index() % 4 * 2 + i % 2; }

template <int MT, int NT>
__device__ __forceinline__ void clear(float (&sums)[MT][NT][4]) {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int nt = 0; nt < NT; ++nt)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[mt][nt][i] = 0.f;
}

// sums += A B over INNER columns of the A tile, from tile row `row` of A and column `n` of B.
template <int INNER, int A_COLS, int B_COLS, bool B_IS_TRANSPOSED, int MT, int NT>
__device__ __forceinline__ void multiply(float (&sums)[MT][NT][4], const u16* a_tile, int row, const u16* b_tile,
                                         int n) {
#pragma unroll
    for (int k = 0; k < INNER; k += 16) {
        u32 a[MT][4];
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) load_a<A_COLS>(a[mt], a_tile, row + 16 * mt, k);
#pragma unroll
        for (int nt = 0; nt < NT; nt += 2) {
            u32 b[4];
            if (B_IS_TRANSPOSED) load_b_transposed<B_COLS>(b, b_tile, n + 8 * nt, k);
            else load_b<B_COLS>(b, b_tile, n + 8 * nt, k);
#pragma unroll
            for (int mt = 0; mt < MT; ++mt) {
                mma_m16n8k16(sums[mt][nt], a[mt], b[0], b[1]);
                mma_m16n8k16(sums[mt][nt + 1], a[mt], b[2], b[3]);
            }
        }
    }
}

// Two neighbouring elements of a row of `cols` columns; a column behind the end is left out.
__device__ __forceinline__ void store_pair(u16* row, int col, int cols, float first, float second) {
    const u32 both = pack2(first, second);
    if (cols % 2 == 0) {
        if (col < cols) *reinterpret_cast<u32*>(row + col) = both;
        return;
    }
    if (col < cols) row[col] = (u16)both;
    if (col + 1 < cols) row[col + 1] = (u16)(both >> 16);
}
