// threadIdx and its like: objects whose members are read from special registers.
#pragma once

#define __GPULEND_INDEX(name, type, sreg)                                                                              \
    struct __gpulend_##name {                                                                                          \
        __declspec(property(get = __get_x)) unsigned int x;                                                            \
        __declspec(property(get = __get_y)) unsigned int y;                                                            \
        __declspec(property(get = __get_z)) unsigned int z;                                                            \
        __GPULEND_DEVICE_METHOD static unsigned int __get_x() { return __nvvm_read_ptx_sreg_##sreg##_x(); }            \
        __GPULEND_DEVICE_METHOD static unsigned int __get_y() { return __nvvm_read_ptx_sreg_##sreg##_y(); }            \
        __GPULEND_DEVICE_METHOD static unsigned int __get_z() { return __nvvm_read_ptx_sreg_##sreg##_z(); }            \
        __GPULEND_DEVICE_METHOD operator uint3() const { return {__get_x(), __get_y(), __get_z()}; }                   \
        __GPULEND_DEVICE_METHOD operator dim3() const { return dim3(__get_x(), __get_y(), __get_z()); }                \
        __gpulend_##name &operator=(const __gpulend_##name &) = delete;                                                \
    };                                                                                                                 \
    extern const __attribute__((device, weak)) __gpulend_##name name;

__GPULEND_INDEX(threadIdx, uint3, tid)
__GPULEND_INDEX(blockIdx, uint3, ctaid)
__GPULEND_INDEX(blockDim, dim3, ntid)
__GPULEND_INDEX(gridDim, dim3, nctaid)
#undef __GPULEND_INDEX

static const int warpSize = 32;

__GPULEND_DEVICE unsigned int __gpulend_lane() {
    unsigned int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
__GPULEND_DEVICE long long clock64() {
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}
__GPULEND_DEVICE int clock() {
    int now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    return now;
}
__GPULEND_DEVICE unsigned long long __globaltimer() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}
__GPULEND_DEVICE void __nanosleep(unsigned int nanoseconds) {
    asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory");
}
