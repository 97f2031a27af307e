// What ptx.cuh does, on the CPU. Fragment layouts are those of the PTX ISA, sections on mma.m16n8k16 and ldmatrix.
#pragma once
#include "cuda_cpu.h"

namespace cpu {

#if BF16
inline float to_float(u16 bits) {
    const u32 wide = (u32)bits << 16;
    float x;
    memcpy(&x, &wide, 4);
    return x;
}
inline u16 to_element(float x) {  // to the nearest, ties to even
    if (std::isnan(x)) return 0x7FFF;
    u32 wide;
    memcpy(&wide, &x, 4);
    return (u16)((wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
}
#else
inline float to_float(u16 bits) {
    _Float16 x;
    memcpy(&x, &bits, 2);
    return (float)x;
}
inline u16 to_element(float x) {
    const _Float16 narrow = (_Float16)x;
    u16 bits;
    memcpy(&bits, &narrow, 2);
    return bits;
}
#endif

inline void count_bank_conflicts(unsigned char (*boxes)[BOX_BYTES]) {
    if (lane() != 0) return;
    for (int matrix = 0; matrix < 4; ++matrix) {
        int rows_in_bank_group[8] = {};
        for (int row = 0; row < 8; ++row) {
            uint64_t address;
            memcpy(&address, boxes[8 * matrix + row] + 16, sizeof address);
            ++rows_in_bank_group[address / 16 % 8];
        }
        bank_conflicts += *std::max_element(rows_in_bank_group, rows_in_bank_group + 8) - 1;
    }
}

inline void ldmatrix(u32 (&r)[4], const u16* row, bool is_transposed) {
    struct {
        unsigned char bytes[16];
        uint64_t address;
    } mine;
    memcpy(mine.bytes, row, 16);
    mine.address = (uint64_t)row;
    auto boxes = exchange(mine);
    count_bank_conflicts(boxes);
    const int major = lane() / 4, minor = lane() % 4 * 2;
    for (int matrix = 0; matrix < 4; ++matrix)
        for (int e = 0; e < 2; ++e) {
            const int from_row = is_transposed ? minor + e : major, from_col = is_transposed ? major : minor + e;
            memcpy((unsigned char*)&r[matrix] + 2 * e, boxes[8 * matrix + from_row] + 2 * from_col, 2);
        }
}

}  // namespace cpu

inline void cp_async16(void* smem, const void* global, bool in_range) {
    const cpu::Copy copy = {smem, global, in_range};
    if (cpu::copies_are_eager) copy.land();
    else cpu::current->uncommitted.push_back(copy);
}
inline void cp_async_commit() {
    cpu::current->groups.push_back(std::move(cpu::current->uncommitted));
    cpu::current->uncommitted.clear();
}
template <int pending>
inline void cp_async_wait() {
    auto& groups = cpu::current->groups;
    while ((int)groups.size() > pending) {
        for (const cpu::Copy& copy : groups.front()) copy.land();
        groups.erase(groups.begin());
    }
}

inline void ldmatrix_x4(u32 (&r)[4], const u16* row) { cpu::ldmatrix(r, row, false); }
inline void ldmatrix_x4_trans(u32 (&r)[4], const u16* row) { cpu::ldmatrix(r, row, true); }

inline void unpack2(u32 both, float& low, float& high) {
    low = cpu::to_float((u16)both);
    high = cpu::to_float((u16)(both >> 16));
}
inline u32 pack2(float low, float high) { return cpu::to_element(low) | (u32)cpu::to_element(high) << 16; }

inline void mma_m16n8k16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    struct {
        float a[8], b[4];
    } mine;
    for (int i = 0; i < 4; ++i) unpack2(a[i], mine.a[2 * i], mine.a[2 * i + 1]);
    unpack2(b0, mine.b[0], mine.b[1]);
    unpack2(b1, mine.b[2], mine.b[3]);
    const auto boxes = (const float (*)[cpu::BOX_BYTES / 4]) cpu::exchange(mine);
    const int group = cpu::lane() / 4, pair = cpu::lane() % 4;
    for (int half = 0; half < 2; ++half)  // inner index 0 .. 7, then 8 .. 15
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < 4; ++i) {
                const float* from_a = boxes[group * 4 + k / 2];
                const float* from_b = boxes[(pair * 2 + i % 2) * 4 + k / 2];
                c[i] += from_a[4 * half + i / 2 * 2 + k % 2] * from_b[8 + 2 * half + k % 2];
            }
}

inline float ex2(float x) { return exp2f(x); }
inline float infinity() { return INFINITY; }
