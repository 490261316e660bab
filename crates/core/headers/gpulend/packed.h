// Two halfwords or four bytes in a word: CUDA's functions of packed integers.
#pragma once

// Calculates each lane by itself. `x` and `y` are the lanes of both words, `least` and `most` the limits of their type.
#define __GPULEND_LANES(name, bits, type, result)                                                                      \
    __GPULEND_BOTH unsigned int name(unsigned int a, unsigned int b) {                                                 \
        constexpr int least = static_cast<type>(-1) < 0 ? -(1 << (bits - 1)) : 0, most = least + ((1 << bits) - 1);    \
        unsigned int packed = 0;                                                                                       \
        for (int at = 0; at < 32; at += bits) {                                                                        \
            int x = static_cast<type>(a >> at), y = static_cast<type>(b >> at);                                        \
            static_cast<void>(y), static_cast<void>(least), static_cast<void>(most);                                   \
            packed |= (static_cast<unsigned int>(result) & ((1u << bits) - 1)) << at;                                  \
        }                                                                                                              \
        return packed;                                                                                                 \
    }
#define __GPULEND_SUM_OF_LANES(name, bits, type, result)                                                               \
    __GPULEND_BOTH unsigned int name(unsigned int a, unsigned int b) {                                                 \
        unsigned int sum = 0;                                                                                          \
        for (int at = 0; at < 32; at += bits) {                                                                        \
            int x = static_cast<type>(a >> at), y = static_cast<type>(b >> at);                                        \
            sum += static_cast<unsigned int>(result);                                                                  \
        }                                                                                                              \
        return sum;                                                                                                    \
    }
#define __GPULEND_CLAMPED(value) ((value) < least ? least : (value) > most ? most : (value))
#define __GPULEND_COMPARED(count, bits, letter, type, name, sign)                                                      \
    __GPULEND_LANES(__vcmp##name##letter##count, bits, type, x sign y ? -1 : 0)                                        \
    __GPULEND_LANES(__vset##name##letter##count, bits, type, x sign y ? 1 : 0)
#define __GPULEND_ORDERED(count, bits, letter, type)                                                                   \
    __GPULEND_COMPARED(count, bits, letter, type, ge, >=)                                                              \
    __GPULEND_COMPARED(count, bits, letter, type, gt, >)                                                               \
    __GPULEND_COMPARED(count, bits, letter, type, le, <=)                                                              \
    __GPULEND_COMPARED(count, bits, letter, type, lt, <)                                                               \
    __GPULEND_LANES(__vmax##letter##count, bits, type, x > y ? x : y)                                                  \
    __GPULEND_LANES(__vmin##letter##count, bits, type, x < y ? x : y)                                                  \
    __GPULEND_LANES(__vabsdiff##letter##count, bits, type, x > y ? x - y : y - x)                                      \
    __GPULEND_SUM_OF_LANES(__vsad##letter##count, bits, type, x > y ? x - y : y - x)                                   \
    __GPULEND_LANES(__vadd##letter##s##count, bits, type, __GPULEND_CLAMPED(x + y))                                    \
    __GPULEND_LANES(__vsub##letter##s##count, bits, type, __GPULEND_CLAMPED(x - y))
// An average between two integers is the one that is farther from zero.
#define __GPULEND_PACKED(count, bits, integer)                                                                         \
    __GPULEND_LANES(__vadd##count, bits, unsigned integer, x + y)                                                      \
    __GPULEND_LANES(__vsub##count, bits, unsigned integer, x - y)                                                      \
    __GPULEND_COMPARED(count, bits, , unsigned integer, eq, ==)                                                        \
    __GPULEND_COMPARED(count, bits, , unsigned integer, ne, !=)                                                        \
    __GPULEND_ORDERED(count, bits, s, signed integer)                                                                  \
    __GPULEND_ORDERED(count, bits, u, unsigned integer)                                                                \
    __GPULEND_LANES(__vavgs##count, bits, signed integer, (x + y + (x + y >= 0)) >> 1)                                 \
    __GPULEND_LANES(__vavgu##count, bits, unsigned integer, (x + y + 1) >> 1)                                          \
    __GPULEND_LANES(__vhaddu##count, bits, unsigned integer, (x + y) >> 1)                                             \
    __GPULEND_LANES(__gpulend_abs##count, bits, signed integer, x < 0 ? -x : x)                                        \
    __GPULEND_LANES(__gpulend_absss##count, bits, signed integer, __GPULEND_CLAMPED(x < 0 ? -x : x))                   \
    __GPULEND_BOTH unsigned int __vabs##count(unsigned int a) { return __gpulend_abs##count(a, 0); }                   \
    __GPULEND_BOTH unsigned int __vabsss##count(unsigned int a) { return __gpulend_absss##count(a, 0); }               \
    __GPULEND_BOTH unsigned int __vneg##count(unsigned int a) { return __vsub##count(0, a); }                          \
    __GPULEND_BOTH unsigned int __vnegss##count(unsigned int a) { return __vsubss##count(0, a); }
__GPULEND_PACKED(2, 16, short)
__GPULEND_PACKED(4, 8, char)

// Sums and the largest or smallest of two or three, of words and of two halfwords. What ends in relu is at least 0; what has a
// place for it says there whether the first was taken.
template <class T> __GPULEND_METHOD T __gpulend_larger(T x, T y) { return x > y ? x : y; }
template <class T> __GPULEND_METHOD T __gpulend_smaller(T x, T y) { return x < y ? x : y; }
template <class T> __GPULEND_METHOD T __gpulend_wrapped(T x, T y) {
    return static_cast<T>(static_cast<unsigned int>(x) + static_cast<unsigned int>(y));
}
#define __GPULEND_HALFWORDS(name, type, result)                                                                        \
    __GPULEND_BOTH unsigned int name(unsigned int a, unsigned int b, unsigned int c) {                                 \
        unsigned int packed = 0;                                                                                       \
        for (int at = 0; at < 32; at += 16) {                                                                          \
            type x = static_cast<type>(a >> at), y = static_cast<type>(b >> at), z = static_cast<type>(c >> at);       \
            packed |= static_cast<unsigned int>(static_cast<unsigned short>(result)) << at;                            \
        }                                                                                                              \
        return packed;                                                                                                 \
    }
#define __GPULEND_EXTREMES(name, word, wide, half, narrow, pick, sign)                                                 \
    __GPULEND_BOTH word __vi##name##3_##wide(word x, word y, word z) { return pick(pick(x, y), z); }                   \
    __GPULEND_HALFWORDS(__vi##name##3_##narrow, half, pick(pick(x, y), z))                                             \
    __GPULEND_BOTH word __viadd##name##_##wide(word x, word y, word z) { return pick(__gpulend_wrapped(x, y), z); }    \
    __GPULEND_HALFWORDS(__viadd##name##_##narrow, half, pick(__gpulend_wrapped(x, y), z))                              \
    __GPULEND_BOTH word __vib##name##_##wide(word x, word y, bool *first) {                                            \
        *first = x sign y;                                                                                             \
        return pick(x, y);                                                                                             \
    }                                                                                                                  \
    __GPULEND_BOTH unsigned int __vib##name##_##narrow(unsigned int a, unsigned int b, bool *high, bool *low) {        \
        *high = static_cast<half>(a >> 16) sign static_cast<half>(b >> 16);                                            \
        *low = static_cast<half>(a) sign static_cast<half>(b);                                                         \
        return __vi##name##3_##narrow(a, b, b);                                                                        \
    }
#define __GPULEND_AT_LEAST_0(name, pick)                                                                               \
    __GPULEND_BOTH int __vi##name##_s32_relu(int x, int y) { return __gpulend_larger(pick(x, y), 0); }                 \
    __GPULEND_BOTH int __vi##name##3_s32_relu(int x, int y, int z) { return __gpulend_larger(pick(pick(x, y), z), 0); } \
    __GPULEND_BOTH int __viadd##name##_s32_relu(int x, int y, int z) {                                                 \
        return __gpulend_larger(pick(__gpulend_wrapped(x, y), z), 0);                                                  \
    }                                                                                                                  \
    __GPULEND_HALFWORDS(__vi##name##3_s16x2_relu, short, __gpulend_larger(pick(pick(x, y), z), short(0)))              \
    __GPULEND_HALFWORDS(__viadd##name##_s16x2_relu, short,                                                             \
                        __gpulend_larger(pick(__gpulend_wrapped(x, y), z), short(0)))                                  \
    __GPULEND_BOTH unsigned int __vi##name##_s16x2_relu(unsigned int a, unsigned int b) {                              \
        return __vi##name##3_s16x2_relu(a, b, b);                                                                      \
    }
__GPULEND_EXTREMES(max, int, s32, short, s16x2, __gpulend_larger, >=)
__GPULEND_EXTREMES(min, int, s32, short, s16x2, __gpulend_smaller, <=)
__GPULEND_EXTREMES(max, unsigned int, u32, unsigned short, u16x2, __gpulend_larger, >=)
__GPULEND_EXTREMES(min, unsigned int, u32, unsigned short, u16x2, __gpulend_smaller, <=)
__GPULEND_AT_LEAST_0(max, __gpulend_larger)
__GPULEND_AT_LEAST_0(min, __gpulend_smaller)
#undef __GPULEND_AT_LEAST_0
#undef __GPULEND_EXTREMES
#undef __GPULEND_HALFWORDS
#undef __GPULEND_PACKED
#undef __GPULEND_ORDERED
#undef __GPULEND_COMPARED
#undef __GPULEND_CLAMPED
#undef __GPULEND_SUM_OF_LANES
#undef __GPULEND_LANES
