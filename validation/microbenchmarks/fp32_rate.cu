// Fused multiply-adds of fp32, CHAINS independent chains a thread: what the FP32 lanes give.
// x = x / 2 + 1 runs to 2, which is the check.
#include "units.h"
#ifndef CHAINS
#error "-D CHAINS: independent accumulators of a thread or warp"
#endif

extern "C" __global__ void fp32_rate(const float* __restrict__ start, float* out, u64* clocks, int rounds)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const float half = start[0], one = start[1];
    float x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = start[2 + (threadIdx.x & 7)] + c;
    const Ticks begin = ticks();
#pragma unroll 4
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int c = 0; c < CHAINS; ++c)
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[c]) : "f"(half), "f"(one));
    write_ticks(clocks, begin);
    float sum = 0.f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += x[c];
    out[thread] = sum / CHAINS;
}
