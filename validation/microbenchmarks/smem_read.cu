// Reads of shared memory: 4 bytes a lane at a stride of STRIDE words (gcd(STRIDE, 32) lanes meet in a bank), or 16 bytes
// a lane side by side where WIDE is defined.
#include "units.h"
#ifndef STRIDE
#error "-D STRIDE: words between the numbers of neighbouring lanes"
#endif
#if !defined(WORDS) || !defined(READS_PER_ROUND)
#error "-D WORDS: 4-byte words of shared memory that are read; -D READS_PER_ROUND: reads of a lane in a round"
#endif

extern "C" __global__ void smem_read(const float* __restrict__ fill, float* out, u64* clocks, int rounds)
{
    __shared__ __align__(16) float words[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) words[i] = fill[i];
    __syncthreads();
    const u32 base = (u32)__cvta_generic_to_shared(words);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
    const Ticks begin = ticks();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int k = 0; k < READS_PER_ROUND; ++k) {
#ifdef WIDE
            const u32 at = base + 4 * ((lane * 4 + (warp + k) * 128) % WORDS);
            float v[4];
            asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(at));
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] += v[i];
#else
            const u32 at = base + 4 * ((lane * STRIDE + (warp + k) * 32) % WORDS);
            float v;
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at));
            sum[k & 3] += v;
#endif
        }
    }
    write_ticks(clocks, begin);
    out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
