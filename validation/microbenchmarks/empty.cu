// A kernel that does next to nothing: what launches, graph nodes and CTAs cost. `ran` counts CTAs where it is given.
extern "C" __global__ void empty(unsigned* ran)
{
    if (ran != nullptr && threadIdx.x == 0) atomicAdd(ran, 1u);
}

// Keeps the stream busy for a while, so that what is launched meanwhile waits in the queue and not on the host.
extern "C" __global__ void spin(unsigned long long ns)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin)::"memory");
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    while (now - begin < ns);
}
