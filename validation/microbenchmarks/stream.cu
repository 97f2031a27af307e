// Arrays of 8-byte numbers that pass once: fill, read, copy with a factor, triad.
// A thread has one number of each array in flight, so that bandwidth is seen against the number of threads. The
// dynamic shared memory that the runner asks for is never touched: it holds the CTAs of an SM at the number wanted.
extern "C" __global__ void stream_init(double* out, long long elements)
{
    const long long step = (long long)gridDim.x * blockDim.x;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step) out[i] = 3.0;
}

// What is read must be used: sums are stored where `keep` is set, and else where they are 0.5, which whole numbers never
// add up to.
extern "C" __global__ void stream_read(const double* __restrict__ a, double* sums, long long elements,
                                       int keep)
{
    const long long step = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0.0;
#pragma unroll 1
    for (long long i = first; i < elements; i += step) sum += a[i];
    if (keep || sum == 0.5) sums[first] = sum;
}

extern "C" __global__ void stream_scale(const double* __restrict__ a, double* __restrict__ out, long long elements)
{
    const long long step = (long long)gridDim.x * blockDim.x;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step) out[i] = 2.0 * a[i];
}

extern "C" __global__ void stream_triad(const double* __restrict__ a, const double* __restrict__ b,
                                        double* __restrict__ out, long long elements)
{
    const long long step = (long long)gridDim.x * blockDim.x;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step)
        out[i] = a[i] + 2.0 * b[i];
}
