// Every instruction that CUDA C has no word for, one function each. Kernels hold no other PTX.
//
// Matrix elements are 16 bits: fp16, or bf16 with -DBF16=1. Compiled by g++ for the CPU, the functions come from
// ../shim/ptx_cpu.h instead, but for those of Hopper, which are not emulated.
#pragma once
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr float LOG2_E = 1.4426950408889634f;  // e^x is ex2(x LOG2_E)

// The one place where a source says how much dynamic shared memory its kernel needs: the runner reads this constant out
// of the CUBIN.
#define DYNAMIC_SMEM(bytes)                                       \
    extern "C" {                                                  \
    __constant__ unsigned dynamic_smem_bytes = (unsigned)(bytes); \
    }

#ifdef GPUSIM_CPU
#include "ptx_cpu.h"
#else

extern __shared__ __align__(1024) unsigned char dynamic_smem[];

#if BF16
#define ELEMENT "bf16"
#else
#define ELEMENT "f16"
#endif

__device__ __forceinline__ u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// 16 bytes from device to shared memory, asynchronously; zeros instead when !in_range, and nothing is read.
__device__ __forceinline__ void cp_async16(void* smem, const void* global, bool in_range) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_address(smem)), "l"(global),
                 "r"(in_range ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the newest `pending` groups of this thread have landed.
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four 8x8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&r)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(row))
                 : "memory");
}

// c += a b: 16x16 times 16x8, fp32 sums.
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 pack2(float low, float high) {
    u32 both;
    asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ void unpack2(u32 both, float& low, float& high) {
#if BF16
    low = __uint_as_float(both << 16);
    high = __uint_as_float(both & 0xffff0000u);
#else
    asm("{ .reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(low), "=f"(high)
        : "r"(both));
#endif
}

// 2^x, and 0 for minus infinity.
__device__ __forceinline__ float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }

// Hopper only: sm_90a.

struct __align__(64) TensorMap {  // CUtensorMap, as the driver encodes it
    u64 words[16];
};

__device__ __forceinline__ void mbarrier_init(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(barrier)), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the unit that TMA copies with.
__device__ __forceinline__ void mbarrier_fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(u64* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_address(barrier)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_bytes(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(barrier)), "r"(bytes)
                 : "memory");
}
// Until the phase of this parity is complete; a new barrier counts the phase before its first, of parity 1, as
// complete.
__device__ __forceinline__ void mbarrier_wait(u64* barrier, u32 parity) {
    u32 is_complete;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_complete)
                     : "r"(smem_address(barrier)), "r"(parity)
                     : "memory");
    } while (!is_complete);
}

// The box of a (head, row, column) tensor that starts at these coordinates; what lies outside is zero.
__device__ __forceinline__ void tma_load(void* smem, const TensorMap* map, u64* barrier, int col, int row, int head) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2];" ::"r"(smem_address(smem)),
        "l"(map), "r"(smem_address(barrier)), "r"(col), "r"(row), "r"(head)
        : "memory");
}

// Moves registers between the warpgroups of a CTA.
template <int registers>
__device__ __forceinline__ void keep_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Matrix descriptor of a tile under the 128-byte swizzle: rows of 128 bytes, eight of them in 1,024 bytes.
// `panel_bytes` leads from 64 columns to the next 64 where the operand's columns are not its inner index.
__device__ __forceinline__ u64 wgmma_descriptor(const void* smem, u32 panel_bytes) {
    constexpr u64 SWIZZLE_128B = 1, EIGHT_ROWS = 1024;
    return (u64)((smem_address(smem) & 0x3FFFF) >> 4) | (u64)(panel_bytes >> 4) << 16 | EIGHT_ROWS >> 4 << 32 |
           SWIZZLE_128B << 62;
}

#define SUMS_4(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define SUMS_16(c, n) SUMS_4(c, n), SUMS_4(c, n + 1), SUMS_4(c, n + 2), SUMS_4(c, n + 3)
#define SUMS_32(c, n) SUMS_16(c, n), SUMS_16(c, n + 4)
#define LIST_32                                                                                                      \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define LIST_64                                                                                                       \
    LIST_32                                                                                                           \
        ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA(n) "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." ELEMENT "." ELEMENT " "

// c = a b^T or, with `accumulates`, c += a b^T; both operands in shared memory, inner index along the rows.
__device__ __forceinline__ void wgmma_transposed(float (&c)[8][4], u64 a, u64 b, bool accumulates) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; " WGMMA("64") "{" LIST_32 "}, %32, %33, p, 1, 1, 0, 0; }"
                 : SUMS_32(c, 0)
                 : "l"(a), "l"(b), "r"((int)accumulates));
}
__device__ __forceinline__ void wgmma_transposed(float (&c)[16][4], u64 a, u64 b, bool accumulates) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; " WGMMA("128") "{" LIST_64 "}, %64, %65, p, 1, 1, 0, 0; }"
                 : SUMS_32(c, 0), SUMS_32(c, 8)
                 : "l"(a), "l"(b), "r"((int)accumulates));
}
// c += a b; a in registers, b in shared memory with its columns along the rows.
__device__ __forceinline__ void wgmma(float (&c)[8][4], const u32 (&a)[4], u64 b) {
    asm volatile(WGMMA("64") "{" LIST_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : SUMS_32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void wgmma(float (&c)[16][4], const u32 (&a)[4], u64 b) {
    asm volatile(WGMMA("128") "{" LIST_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : SUMS_32(c, 0), SUMS_32(c, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#endif
