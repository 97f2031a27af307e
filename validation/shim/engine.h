// Runs a grid of CTAs of a kernel: fibers under a scheduler, or OS threads.
#pragma once
#include "cuda_cpu.h"

namespace cpu {

struct Launch {
    Index grid, block;
    unsigned seed;
    bool is_unfair;  // a warp runs as far as it goes before another one does; otherwise all in turns, shuffled
};

inline const std::function<void()>* body;

#ifdef GPUSIM_CPU_THREADS
inline void run_cta(const Launch&, std::mt19937&) {
    const int n = (int)threads.size();
    cta_barrier = std::make_unique<std::barrier<>>(n);
    warp_barriers.clear();
    for (int first = 0; first < n; first += WARP)
        warp_barriers.push_back(std::make_unique<std::barrier<>>(min(WARP, n - first)));
    std::vector<std::thread> running;
    for (Thread& thread : threads)
        running.emplace_back([&thread] {
            current = &thread;
            (*body)();
            warp_barriers[thread.linear / WARP]->arrive_and_drop();
            cta_barrier->arrive_and_drop();
        });
    for (std::thread& thread : running) thread.join();
}
#else
inline void enter() {
    (*body)();
    current->state = State::done;
}

inline void resume(Thread& thread) {
    current = &thread;
    swapcontext(&scheduler, &fibers[thread.linear]);
}

// Threads that wait at a barrier that all of `first` … `last` have reached may go on.
inline bool release(int first, int last, State waiting) {
    for (int i = first; i < last; ++i)
        if (threads[i].state != waiting) return false;
    for (int i = first; i < last; ++i) threads[i].state = State::runnable;
    return true;
}

inline void run_cta(const Launch& launch, std::mt19937& random) {
    static std::vector<char> stacks;
    const int n = (int)threads.size(), num_warps = (n + WARP - 1) / WARP;
    stacks.resize(STACK_BYTES * n);
    fibers.resize(n);
    for (int i = 0; i < n; ++i) {
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = &stacks[STACK_BYTES * i];
        fibers[i].uc_stack.ss_size = STACK_BYTES;
        fibers[i].uc_link = &scheduler;
        makecontext(&fibers[i], enter, 0);
    }
    std::vector<int> warp_order(num_warps), lane_order(WARP);
    for (int i = 0; i < num_warps; ++i) warp_order[i] = i;
    for (int i = 0; i < WARP; ++i) lane_order[i] = i;
    std::shuffle(warp_order.begin(), warp_order.end(), random);

    while (!std::all_of(threads.begin(), threads.end(), [](const Thread& t) { return t.state == State::done; })) {
        bool progressed = false;
        if (!launch.is_unfair) std::shuffle(warp_order.begin(), warp_order.end(), random);
        for (int warp : warp_order) {
            const int first = warp * WARP, last = min(n, first + WARP);
            bool ran = false;
            std::shuffle(lane_order.begin(), lane_order.end(), random);
            for (int lane : lane_order)
                if (first + lane < last && threads[first + lane].state == State::runnable)
                    resume(threads[first + lane]), ran = true;
            ran |= release(first, last, State::at_warp_barrier);
            progressed |= ran;
            if (ran && launch.is_unfair) break;  // the first in the order that can run, again and again
        }
        progressed |= release(0, n, State::at_barrier);
        if (!progressed)
            throw std::runtime_error("barrier divergence: some threads wait at a barrier that others never reach");
    }
}
#endif

inline void run_grid(const Launch& launch, const std::function<void()>& kernel) {
    const Index& block = launch.block;
    const int n = (int)(block.x * block.y * block.z);
    std::mt19937 random(launch.seed);
    body = &kernel;
    block_dim = block;
    grid_dim = launch.grid;
    for (unsigned z = 0; z < launch.grid.z; ++z)
        for (unsigned y = 0; y < launch.grid.y; ++y)
            for (unsigned x = 0; x < launch.grid.x; ++x) {
                block_index = {x, y, z};
                memset(dynamic_smem, 0xFF, sizeof dynamic_smem);
                warps.assign((n + WARP - 1) / WARP, Warp());
                threads.clear();
                for (unsigned i = 0; i < (unsigned)n; ++i)
                    threads.push_back({{i % block.x, i / block.x % block.y, i / (block.x * block.y)}, (int)i});
                run_cta(launch, random);
                for (size_t i = dynamic_smem_bytes; i < sizeof dynamic_smem; ++i)
                    if (dynamic_smem[i] != 0xFF)
                        throw std::runtime_error("wrote behind the dynamic shared memory that the source defines");
            }
}

}  // namespace cpu
