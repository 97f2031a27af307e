// CTAs that read parts of one set over and over, past L1 (ld.global.cg), 16 bytes a thread and load, four in flight.
// `sharers` neighbouring CTAs read the same part; with one sharer all parts are disjoint. A part is a whole number of
// blockDim.x * 64 bytes.
extern "C" __global__ void __launch_bounds__(1024)
cache_read(const float4* __restrict__ set, float* sums, int part_vectors, int sharers, int rounds)
{
    const float4* part = set + (size_t)(blockIdx.x / sharers) * part_vectors;
    float sum = 0.f;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 1
        for (int i = threadIdx.x; i < part_vectors; i += 4 * blockDim.x) {
            float4 v[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) v[k] = __ldcg(part + i + k * blockDim.x);
#pragma unroll
            for (int k = 0; k < 4; ++k) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
        }
    }
    sums[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
