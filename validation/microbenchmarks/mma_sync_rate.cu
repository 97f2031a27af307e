// mma.sync m16n8k16 with fp32 accumulation and operands in registers: what the tensor cores give that path.
// A warp keeps CHAINS independent accumulators. Fragments are filled from `operands`, one word a lane and register.
#include "units.h"
#ifdef BF16
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
#ifndef CHAINS
#error "-D CHAINS: independent accumulators of a thread or warp"
#endif

extern "C" __global__ void mma_sync_rate(const u32* __restrict__ operands, float* out, u64* clocks, int rounds)
{
    const u32* mine = operands + (threadIdx.x & 31) * 6;
    u32 a[4], b[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = mine[i];
#pragma unroll
    for (int i = 0; i < 2; ++i) b[i] = mine[4 + i];
    float d[CHAINS][4];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) d[c][i] = 0.f;
    const Ticks begin = ticks();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int c = 0; c < CHAINS; ++c)
            asm volatile(MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    write_ticks(clocks, begin);
    float sum = 0.f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += d[c][i];
    out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
