// Loads and stores that say which cache they mean. The answer is the same: only __ldg keeps its promise that
// nobody writes there.
#pragma once

template <class T> __GPULEND_DEVICE_METHOD T __gpulend_load(const T *place) {
    return *place;
}
template <class T> __GPULEND_DEVICE_METHOD T __ldg(const T *place) { return __gpulend_load(place); }
template <class T> __GPULEND_DEVICE_METHOD T __ldca(const T *place) { return __gpulend_load(place); }
template <class T> __GPULEND_DEVICE_METHOD T __ldcg(const T *place) { return __gpulend_load(place); }
template <class T> __GPULEND_DEVICE_METHOD T __ldcs(const T *place) { return __gpulend_load(place); }
template <class T> __GPULEND_DEVICE_METHOD T __ldlu(const T *place) { return __gpulend_load(place); }
// Loaded anew each time.
template <class T> __GPULEND_DEVICE_METHOD T __ldcv(const T *place) {
    asm volatile("" ::: "memory");
    T value = *place;
    asm volatile("" ::: "memory");
    return value;
}
template <class T> __GPULEND_DEVICE_METHOD void __stwb(T *place, T value) { *place = value; }
template <class T> __GPULEND_DEVICE_METHOD void __stcg(T *place, T value) { *place = value; }
template <class T> __GPULEND_DEVICE_METHOD void __stcs(T *place, T value) { *place = value; }
template <class T> __GPULEND_DEVICE_METHOD void __stwt(T *place, T value) { *place = value; }

#define __GPULEND_SPACE(name, space)                                                                                   \
    __GPULEND_DEVICE unsigned int name(const void *place) {                                                            \
        unsigned int is;                                                                                               \
        asm("{ .reg .pred p; isspacep." space " p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(is) : "l"(place));              \
        return is;                                                                                                     \
    }
__GPULEND_SPACE(__isGlobal, "global")
__GPULEND_SPACE(__isShared, "shared")
__GPULEND_SPACE(__isLocal, "local")
__GPULEND_SPACE(__isConstant, "const")
#undef __GPULEND_SPACE
#define __GPULEND_SPACE(name, back, space)                                                                             \
    __GPULEND_DEVICE size_t name(const void *place) {                                                                  \
        size_t inside;                                                                                                 \
        asm("cvta.to." space ".u64 %0, %1;" : "=l"(inside) : "l"(place));                                              \
        return inside;                                                                                                 \
    }                                                                                                                  \
    __GPULEND_DEVICE void *back(size_t inside) {                                                                       \
        void *place;                                                                                                   \
        asm("cvta." space ".u64 %0, %1;" : "=l"(place) : "l"(inside));                                                 \
        return place;                                                                                                  \
    }
__GPULEND_SPACE(__cvta_generic_to_global, __cvta_global_to_generic, "global")
__GPULEND_SPACE(__cvta_generic_to_shared, __cvta_shared_to_generic, "shared")
__GPULEND_SPACE(__cvta_generic_to_local, __cvta_local_to_generic, "local")
__GPULEND_SPACE(__cvta_generic_to_constant, __cvta_constant_to_generic, "const")
#undef __GPULEND_SPACE
