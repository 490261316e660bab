// What a kernel says: printf, assert, and ending the launch.
#pragma once

extern "C" __attribute__((host, device, noreturn)) void
__assertfail(const char *message, const char *file, unsigned int line, const char *function, size_t char_size);

#ifdef __GPULEND_PROGRAM
// clang makes its own calls of printf on a device; <assert.h> of the system calls this.
#ifdef __CUDA_ARCH__
__GPULEND_LIBC void __assert_fail(const char *message, const char *file, unsigned int line, const char *function) {
    __assertfail(message, file, line, function, 1);
}
#endif
#else
extern "C" __attribute__((host, device)) int vprintf(const char *format, const char *values);
// What C's variable arguments become: at least an int, and a double for a float.
__GPULEND_BOTH double __gpulend_promoted(float value) { return value; }
__GPULEND_BOTH const void *__gpulend_promoted(nullptr_t) { return 0; }
template <class T> __GPULEND_METHOD auto __gpulend_promoted(T value) -> decltype(+value) { return +value; }
template <class T> __GPULEND_METHOD size_t __gpulend_pack(char *buffer, size_t at, T value) {
    at = (at + sizeof value - 1) / sizeof value * sizeof value;
    __builtin_memcpy(buffer + at, &value, sizeof value);
    return at + sizeof value;
}
// The values lie one after another in a local buffer, each where its alignment allows.
template <class... Values> __GPULEND_METHOD int printf(const char *format, Values... values) {
    if constexpr (sizeof...(Values) == 0) {
        return vprintf(format, 0);
    } else {
        __attribute__((aligned(8))) char buffer[8 * sizeof...(Values)];
        size_t at = 0;
        ((at = __gpulend_pack(buffer, at, __gpulend_promoted(values))), ...);
        return vprintf(format, buffer);
    }
}
namespace std {
using ::printf;
}

#include "assert.h"
#endif

__GPULEND_DEVICE void __trap() { asm volatile("trap;"); }
__GPULEND_DEVICE void __brkpt() { asm volatile("brkpt;"); }
__GPULEND_DEVICE void __prof_trigger(int) {}
