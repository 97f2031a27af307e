// What the kernels that load one unit of the SM share: ticks of both clocks, and words that the compiler cannot see.
#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;

// The SM's clock counts cycles, the global timer counts ns: their ratio is the clock while the kernel ran.
struct Ticks { u64 cycles, ns; };

__device__ __forceinline__ Ticks ticks()
{
    Ticks now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now.cycles) :: "memory");
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now.ns) :: "memory");
    return now;
}

__device__ __forceinline__ void write_ticks(u64* out, const Ticks& begin)
{
    const Ticks end = ticks();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        out[0] = end.cycles - begin.cycles;
        out[1] = end.ns - begin.ns;
    }
}
