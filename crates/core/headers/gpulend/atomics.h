// Atomic operations, relaxed as CUDA's are: for the device, and as _block and _system.
#pragma once

#define __GPULEND_ATOMIC(name, type, scope, op, letter)                                                                \
    __GPULEND_DEVICE type name(type *place, type value) {                                                              \
        type old;                                                                                                      \
        asm volatile("atom" scope "." op " %0, [%1], %2;" : "=" letter(old) : "l"(place), letter(value) : "memory");   \
        return old;                                                                                                    \
    }
#define __GPULEND_ATOMIC_CAS(name, type, scope, op, letter)                                                            \
    __GPULEND_DEVICE type name(type *place, type wanted, type value) {                                                 \
        type old;                                                                                                      \
        asm volatile("atom" scope "." op " %0, [%1], %2, %3;"                                                          \
                     : "=" letter(old) : "l"(place), letter(wanted), letter(value) : "memory");                        \
        return old;                                                                                                    \
    }
#define __GPULEND_ATOMIC_SUB(name, add, type)                                                                          \
    __GPULEND_DEVICE type name(type *place, type value) { return add(place, 0 - value); }
#define __GPULEND_ATOMICS(suffix, scope)                                                                               \
    __GPULEND_ATOMIC(atomicAdd##suffix, int, scope, "add.s32", "r")                                                    \
    __GPULEND_ATOMIC(atomicAdd##suffix, unsigned int, scope, "add.u32", "r")                                           \
    __GPULEND_ATOMIC(atomicAdd##suffix, unsigned long long, scope, "add.u64", "l")                                     \
    __GPULEND_ATOMIC(atomicAdd##suffix, unsigned long, scope, "add.u64", "l")                                          \
    __GPULEND_ATOMIC(atomicAdd##suffix, float, scope, "add.f32", "f")                                                  \
    __GPULEND_ATOMIC(atomicAdd##suffix, double, scope, "add.f64", "d")                                                 \
    __GPULEND_ATOMIC_SUB(atomicSub##suffix, atomicAdd##suffix, int)                                                    \
    __GPULEND_ATOMIC_SUB(atomicSub##suffix, atomicAdd##suffix, unsigned int)                                           \
    __GPULEND_ATOMIC_SUB(atomicSub##suffix, atomicAdd##suffix, unsigned long long)                                     \
    __GPULEND_ATOMIC(atomicExch##suffix, int, scope, "exch.b32", "r")                                                  \
    __GPULEND_ATOMIC(atomicExch##suffix, unsigned int, scope, "exch.b32", "r")                                         \
    __GPULEND_ATOMIC(atomicExch##suffix, unsigned long long, scope, "exch.b64", "l")                                   \
    __GPULEND_ATOMIC(atomicExch##suffix, unsigned long, scope, "exch.b64", "l")                                        \
    __GPULEND_ATOMIC(atomicExch##suffix, float, scope, "exch.b32", "f")                                                \
    __GPULEND_ATOMIC(atomicMin##suffix, int, scope, "min.s32", "r")                                                    \
    __GPULEND_ATOMIC(atomicMin##suffix, unsigned int, scope, "min.u32", "r")                                           \
    __GPULEND_ATOMIC(atomicMin##suffix, long long, scope, "min.s64", "l")                                              \
    __GPULEND_ATOMIC(atomicMin##suffix, unsigned long long, scope, "min.u64", "l")                                     \
    __GPULEND_ATOMIC(atomicMax##suffix, int, scope, "max.s32", "r")                                                    \
    __GPULEND_ATOMIC(atomicMax##suffix, unsigned int, scope, "max.u32", "r")                                           \
    __GPULEND_ATOMIC(atomicMax##suffix, long long, scope, "max.s64", "l")                                              \
    __GPULEND_ATOMIC(atomicMax##suffix, unsigned long long, scope, "max.u64", "l")                                     \
    __GPULEND_ATOMIC(atomicInc##suffix, unsigned int, scope, "inc.u32", "r")                                           \
    __GPULEND_ATOMIC(atomicDec##suffix, unsigned int, scope, "dec.u32", "r")                                           \
    __GPULEND_ATOMIC_BITS(atomicAnd##suffix, scope, "and")                                                             \
    __GPULEND_ATOMIC_BITS(atomicOr##suffix, scope, "or")                                                               \
    __GPULEND_ATOMIC_BITS(atomicXor##suffix, scope, "xor")                                                             \
    __GPULEND_ATOMIC_CAS(atomicCAS##suffix, int, scope, "cas.b32", "r")                                                \
    __GPULEND_ATOMIC_CAS(atomicCAS##suffix, unsigned int, scope, "cas.b32", "r")                                       \
    __GPULEND_ATOMIC_CAS(atomicCAS##suffix, unsigned long long, scope, "cas.b64", "l")                                 \
    __GPULEND_ATOMIC_CAS(atomicCAS##suffix, unsigned long, scope, "cas.b64", "l")                                      \
    __GPULEND_ATOMIC_CAS(atomicCAS##suffix, unsigned short, scope, "cas.b16", "h")
#define __GPULEND_ATOMIC_BITS(name, scope, op)                                                                         \
    __GPULEND_ATOMIC(name, int, scope, op ".b32", "r")                                                                 \
    __GPULEND_ATOMIC(name, unsigned int, scope, op ".b32", "r")                                                        \
    __GPULEND_ATOMIC(name, unsigned long long, scope, op ".b64", "l")
__GPULEND_ATOMICS(, "")
__GPULEND_ATOMICS(_block, ".cta")
__GPULEND_ATOMICS(_system, ".sys")
#undef __GPULEND_ATOMIC_BITS
#undef __GPULEND_ATOMICS
#undef __GPULEND_ATOMIC_SUB
#undef __GPULEND_ATOMIC_CAS
#undef __GPULEND_ATOMIC
