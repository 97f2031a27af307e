// ex2.approx, CHAINS independent chains a thread: what the special-function units give.
// x = 2^(-x) runs to its fixed point 0.6411857, which is the check.
#include "units.h"
#ifndef CHAINS
#error "-D CHAINS: independent accumulators of a thread or warp"
#endif

extern "C" __global__ void exp_rate(const float* __restrict__ start, float* out, u64* clocks, int rounds)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = start[threadIdx.x] + 0.0625f * c;
    const Ticks begin = ticks();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(x[c]) : "f"(-x[c]));
    write_ticks(clocks, begin);
    float sum = 0.f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += x[c];
    out[thread] = sum / CHAINS;
}
