// <string.h>: defined here, because a device has no C library to call.
#pragma once

#if !defined(__GPULEND_PROGRAM) || defined(__CUDA_ARCH__)
__GPULEND_LIBC void *memcpy(void *to, const void *from, size_t count) { return __builtin_memcpy(to, from, count); }
__GPULEND_LIBC void *memmove(void *to, const void *from, size_t count) { return __builtin_memmove(to, from, count); }
__GPULEND_LIBC void *memset(void *to, int value, size_t count) { return __builtin_memset(to, value, count); }
__GPULEND_LIBC int memcmp(const void *left, const void *right, size_t count) {
    const unsigned char *a = static_cast<const unsigned char *>(left), *b = static_cast<const unsigned char *>(right);
    for (; count != 0; count--, a++, b++)
        if (*a != *b) return *a - *b;
    return 0;
}
__GPULEND_LIBC size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != 0) length++;
    return length;
}
__GPULEND_LIBC int strcmp(const char *left, const char *right) {
    for (; *left != 0 && *left == *right; left++, right++) {}
    return static_cast<unsigned char>(*left) - static_cast<unsigned char>(*right);
}
__GPULEND_LIBC char *strcpy(char *to, const char *from) {
    size_t at = 0;
    do to[at] = from[at];
    while (from[at++] != 0);
    return to;
}
#endif
#ifndef __GPULEND_PROGRAM
namespace std {
using ::memcmp;
using ::memcpy;
using ::memmove;
using ::memset;
using ::strcmp;
using ::strcpy;
using ::strlen;
} // namespace std
#endif
