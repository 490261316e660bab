// malloc, free, new and delete on a device: from its own heap, which other kernels see too. The driver brings the first two.
#pragma once

#ifndef __GPULEND_PROGRAM
extern "C" __attribute__((host, device)) void *malloc(size_t size);
extern "C" __attribute__((host, device)) void free(void *place);
#endif
#define __GPULEND_OPERATOR __inline__ __attribute__((device, always_inline, nodebug, unused))
// A replaced operator may not be inline in C++; there is one for each translation here.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winline-new-delete"
__GPULEND_OPERATOR void *operator new(size_t size) { return malloc(size == 0 ? 1 : size); }
__GPULEND_OPERATOR void *operator new[](size_t size) { return malloc(size == 0 ? 1 : size); }
__GPULEND_OPERATOR void operator delete(void *place) noexcept { free(place); }
__GPULEND_OPERATOR void operator delete[](void *place) noexcept { free(place); }
__GPULEND_OPERATOR void operator delete(void *place, size_t) noexcept { free(place); }
__GPULEND_OPERATOR void operator delete[](void *place, size_t) noexcept { free(place); }
// In memory that is there already.
__GPULEND_OPERATOR void *operator new(size_t, void *place) noexcept { return place; }
__GPULEND_OPERATOR void *operator new[](size_t, void *place) noexcept { return place; }
__GPULEND_OPERATOR void operator delete(void *, void *) noexcept {}
__GPULEND_OPERATOR void operator delete[](void *, void *) noexcept {}
#pragma clang diagnostic pop
#undef __GPULEND_OPERATOR
