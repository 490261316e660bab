// Names that CUDA had before 9: an exchange among those threads of a warp that happen to be together. Of types that can be
// exchanged only: programs have functions of these names for others.
#pragma once

#define __GPULEND_OLDER(name)                                                                                          \
    template <class T, class = decltype(name##_sync(0u, T(), 0, 0))>                                                   \
    __GPULEND_DEVICE_METHOD T name(T value, int with, int width = 32) {                                                \
        return name##_sync(__activemask(), value, with, width);                                                        \
    }
__GPULEND_OLDER(__shfl)
__GPULEND_OLDER(__shfl_up)
__GPULEND_OLDER(__shfl_down)
__GPULEND_OLDER(__shfl_xor)
#undef __GPULEND_OLDER
__GPULEND_DEVICE int __all(int wanted) { return __all_sync(__activemask(), wanted); }
__GPULEND_DEVICE int __any(int wanted) { return __any_sync(__activemask(), wanted); }
__GPULEND_DEVICE unsigned int __ballot(int wanted) { return __ballot_sync(__activemask(), wanted); }
