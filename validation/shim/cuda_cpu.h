// CUDA C on the CPU, one CTA at a time, to see whether a kernel is right: never how fast it is.
//
// Every CUDA thread is a fiber of one OS thread, scheduled fairly or one warp as far as it goes; or, with
// -DGPUSIM_CPU_THREADS, an OS thread of its own, for ThreadSanitizer. Warps do not run in lockstep. Shared memory
// starts as NaN, and so does what lies behind it. Left out: clusters, atomics, and everything between CTAs, which run
// one after another.
#pragma once
#define GPUSIM_CPU 1
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>
#include <ucontext.h>

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

using std::max;
using std::min;

namespace cpu {

constexpr int WARP = 32, BOX_BYTES = 64;
constexpr size_t SMEM_BYTES = 232448, STACK_BYTES = 256 << 10;

struct Index {
    unsigned x, y, z;
};
struct Copy {  // cp.async of 16 bytes
    void* smem;
    const void* global;
    bool in_range;
    void land() const {
        if (in_range) memcpy(smem, global, 16);
        else memset(smem, 0, 16);
    }
};
enum class State { runnable, at_barrier, at_warp_barrier, done };
struct Thread {
    Index index;
    int linear;
    State state = State::runnable;
    unsigned exchanges = 0;  // warp operations it took part in
    std::vector<Copy> uncommitted;
    std::vector<std::vector<Copy>> groups;
};
// Two boxes a lane, used in turns: one barrier between writing and reading is enough.
struct Warp {
    alignas(16) unsigned char box[2][WARP][BOX_BYTES];
};

inline Index block_index, block_dim, grid_dim;
inline std::vector<Thread> threads;
inline std::vector<Warp> warps;
inline bool copies_are_eager;  // asynchronous copies land when issued; otherwise not before they are waited for
inline std::atomic<uint64_t> bank_conflicts;  // extra passes of ldmatrix

#ifdef GPUSIM_CPU_THREADS
inline thread_local Thread* current;
inline std::unique_ptr<std::barrier<>> cta_barrier;
inline std::vector<std::unique_ptr<std::barrier<>>> warp_barriers;
inline void cta_sync() { cta_barrier->arrive_and_wait(); }
inline void warp_sync() { warp_barriers[current->linear / WARP]->arrive_and_wait(); }
#else
inline Thread* current;
inline ucontext_t scheduler;
inline std::vector<ucontext_t> fibers;
inline void wait_as(State state) {
    current->state = state;
    swapcontext(&fibers[current->linear], &scheduler);
}
inline void cta_sync() { wait_as(State::at_barrier); }
inline void warp_sync() { wait_as(State::at_warp_barrier); }
#endif

inline int lane() { return current->linear % WARP; }

// Every lane of the warp puts `mine` into its box; returns the boxes.
template <class T>
unsigned char (*exchange(const T& mine)) [BOX_BYTES] {
    static_assert(sizeof(T) <= BOX_BYTES);
    auto& boxes = warps[current->linear / WARP].box[current->exchanges++ % 2];
    memcpy(boxes[lane()], &mine, sizeof mine);
    warp_sync();
    return boxes;
}

}  // namespace cpu

alignas(1024) inline unsigned char dynamic_smem[cpu::SMEM_BYTES];
extern "C" unsigned dynamic_smem_bytes;

#define threadIdx (cpu::current->index)
#define blockIdx (cpu::block_index)
#define blockDim (cpu::block_dim)
#define gridDim (cpu::grid_dim)

inline void __syncthreads() { cpu::cta_sync(); }
inline void __syncwarp() { cpu::warp_sync(); }
inline float __shfl_xor_sync(unsigned, float x, int mask) {
    auto boxes = cpu::exchange(x);
    float other;
    memcpy(&other, boxes[cpu::lane() ^ mask], sizeof other);
    return other;
}
