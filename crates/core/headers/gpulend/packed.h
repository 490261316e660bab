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
#undef __GPULEND_PACKED
#undef __GPULEND_ORDERED
#undef __GPULEND_COMPARED
#undef __GPULEND_CLAMPED
#undef __GPULEND_SUM_OF_LANES
#undef __GPULEND_LANES
