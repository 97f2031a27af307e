// One thread follows a ring of lines of 128 bytes: each load waits for the one before. L1 is passed by (ld.global.cg).
// `next` holds, at the head of each line, the number of the line to go to. The walk goes on where the last one ended.
#ifndef LINE_WORDS
#error "-D LINE_WORDS: 4-byte words of a line"
#endif

extern "C" __global__ void pointer_chase(const unsigned* __restrict__ next, unsigned* at, int hops)
{
    unsigned line = at[0];
#pragma unroll 1
    for (int hop = 0; hop < hops; ++hop) line = __ldcg(next + (size_t)line * LINE_WORDS);
    at[0] = line;
}
