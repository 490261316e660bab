// Exchange between the threads of a warp.
#pragma once

// The last operand holds the first lane of a segment, in bits 8 to 12, and the clamp, in bits 0 to 4.
#define __GPULEND_SHUFFLE(name, mode, clamp, with)                                                                     \
    __GPULEND_DEVICE unsigned int __gpulend_##name(unsigned int mask, unsigned int value, int with, int width) {       \
        unsigned int result;                                                                                           \
        asm volatile("shfl.sync." mode ".b32 %0, %1, %2, %3, %4;"                                                      \
                     : "=r"(result) : "r"(value), "r"(with), "r"((32 - width) << 8 | clamp), "r"(mask));               \
        return result;                                                                                                 \
    }                                                                                                                  \
    __GPULEND_SHUFFLE_AS(name, with, int, unsigned int)                                                                \
    __GPULEND_SHUFFLE_AS(name, with, unsigned int, unsigned int)                                                       \
    __GPULEND_SHUFFLE_AS(name, with, float, unsigned int)                                                              \
    __GPULEND_SHUFFLE_WIDE(name, with, long)                                                                           \
    __GPULEND_SHUFFLE_WIDE(name, with, unsigned long)                                                                  \
    __GPULEND_SHUFFLE_WIDE(name, with, long long)                                                                      \
    __GPULEND_SHUFFLE_WIDE(name, with, unsigned long long)                                                             \
    __GPULEND_SHUFFLE_WIDE(name, with, double)
#define __GPULEND_SHUFFLE_AS(name, with, type, bits)                                                                   \
    __GPULEND_DEVICE type name(unsigned int mask, type value, int with, int width = 32) {                              \
        return __gpulend_bits<type>(__gpulend_##name(mask, __gpulend_bits<bits>(value), with, width));                 \
    }
#define __GPULEND_SHUFFLE_WIDE(name, with, type)                                                                       \
    __GPULEND_DEVICE type name(unsigned int mask, type value, int with, int width = 32) {                              \
        uint2 halves = __gpulend_bits<uint2>(value);                                                                   \
        halves.x = __gpulend_##name(mask, halves.x, with, width);                                                      \
        halves.y = __gpulend_##name(mask, halves.y, with, width);                                                      \
        return __gpulend_bits<type>(halves);                                                                           \
    }
__GPULEND_SHUFFLE(__shfl_sync, "idx", 31, lane)
__GPULEND_SHUFFLE(__shfl_up_sync, "up", 0, delta)
__GPULEND_SHUFFLE(__shfl_down_sync, "down", 31, delta)
__GPULEND_SHUFFLE(__shfl_xor_sync, "bfly", 31, lanes)
#undef __GPULEND_SHUFFLE_WIDE
#undef __GPULEND_SHUFFLE_AS
#undef __GPULEND_SHUFFLE

__GPULEND_DEVICE unsigned int __activemask() {
    unsigned int mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}
__GPULEND_DEVICE unsigned int __ballot_sync(unsigned int mask, int wanted) {
    unsigned int ballot;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
                 : "=r"(ballot) : "r"(wanted), "r"(mask));
    return ballot;
}
#define __GPULEND_VOTE(name, mode)                                                                                     \
    __GPULEND_DEVICE int name(unsigned int mask, int wanted) {                                                         \
        int result;                                                                                                    \
        asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; vote.sync." mode ".pred q, p, %2;"                      \
                     " selp.s32 %0, 1, 0, q; }"                                                                        \
                     : "=r"(result) : "r"(wanted), "r"(mask));                                                         \
        return result;                                                                                                 \
    }
__GPULEND_VOTE(__all_sync, "all")
__GPULEND_VOTE(__any_sync, "any")
__GPULEND_VOTE(__uni_sync, "uni")
#undef __GPULEND_VOTE

#define __GPULEND_MATCH(type, width, letter, bits)                                                                     \
    __GPULEND_DEVICE unsigned int __match_any_sync(unsigned int mask, type value) {                                    \
        unsigned int same;                                                                                             \
        asm volatile("match.any.sync.b" width " %0, %1, %2;"                                                           \
                     : "=r"(same) : letter(__gpulend_bits<bits>(value)), "r"(mask));                                   \
        return same;                                                                                                   \
    }                                                                                                                  \
    __GPULEND_DEVICE unsigned int __match_all_sync(unsigned int mask, type value, int *all) {                          \
        unsigned int same;                                                                                             \
        asm volatile("{ .reg .pred p; match.all.sync.b" width " %0|p, %2, %3; selp.s32 %1, 1, 0, p; }"                 \
                     : "=r"(same), "=r"(*all) : letter(__gpulend_bits<bits>(value)), "r"(mask));                       \
        return same;                                                                                                   \
    }
__GPULEND_MATCH(int, "32", "r", unsigned int)
__GPULEND_MATCH(unsigned int, "32", "r", unsigned int)
__GPULEND_MATCH(float, "32", "r", unsigned int)
__GPULEND_MATCH(long, "64", "l", unsigned long long)
__GPULEND_MATCH(unsigned long, "64", "l", unsigned long long)
__GPULEND_MATCH(long long, "64", "l", unsigned long long)
__GPULEND_MATCH(unsigned long long, "64", "l", unsigned long long)
__GPULEND_MATCH(double, "64", "l", unsigned long long)
#undef __GPULEND_MATCH

// Newer GPUs have an instruction; this one goes through the lanes of the mask, all of which take part.
#define __GPULEND_REDUCE(name, type, combine)                                                                          \
    __GPULEND_DEVICE type name(unsigned int mask, type value) {                                                        \
        type sum = __shfl_sync(mask, value, __ffs(static_cast<int>(mask)) - 1);                                        \
        for (unsigned int rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {                                     \
            type other = __shfl_sync(mask, value, __ffs(static_cast<int>(rest)) - 1);                                  \
            sum = combine;                                                                                             \
        }                                                                                                              \
        return sum;                                                                                                    \
    }
__GPULEND_REDUCE(__reduce_add_sync, unsigned int, sum + other)
__GPULEND_REDUCE(__reduce_min_sync, unsigned int, min(sum, other))
__GPULEND_REDUCE(__reduce_max_sync, unsigned int, max(sum, other))
__GPULEND_REDUCE(__reduce_and_sync, unsigned int, sum &other)
__GPULEND_REDUCE(__reduce_or_sync, unsigned int, sum | other)
__GPULEND_REDUCE(__reduce_xor_sync, unsigned int, sum ^ other)
__GPULEND_REDUCE(__reduce_min_sync, int, min(sum, other))
__GPULEND_REDUCE(__reduce_max_sync, int, max(sum, other))
#undef __GPULEND_REDUCE
__GPULEND_DEVICE int __reduce_add_sync(unsigned int mask, int value) {
    return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned int>(value)));
}
