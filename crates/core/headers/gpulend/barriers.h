// Barriers of blocks and warps, and fences.
#pragma once

__GPULEND_DEVICE void __gpulend_barrier() { asm volatile("bar.sync 0;" ::: "memory"); }
// Older compilers have these names built in, with this meaning.
#define __syncthreads() __gpulend_barrier()
#define __syncthreads_count(wanted) __gpulend_barrier_count(wanted)
#define __syncthreads_and(wanted) __gpulend_barrier_and(wanted)
#define __syncthreads_or(wanted) __gpulend_barrier_or(wanted)
__GPULEND_DEVICE int __gpulend_barrier_count(int wanted) {
    int count;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; bar.red.popc.u32 %0, 0, p; }"
                 : "=r"(count) : "r"(wanted) : "memory");
    return count;
}
__GPULEND_DEVICE int __gpulend_barrier_and(int wanted) {
    int all;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.and.pred q, 0, p; selp.s32 %0, 1, 0, q; }"
                 : "=r"(all) : "r"(wanted) : "memory");
    return all;
}
__GPULEND_DEVICE int __gpulend_barrier_or(int wanted) {
    int any;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.or.pred q, 0, p; selp.s32 %0, 1, 0, q; }"
                 : "=r"(any) : "r"(wanted) : "memory");
    return any;
}
// Barriers by number, of a whole block or of some of its warps.
__GPULEND_DEVICE void __barrier_sync(unsigned int number) { asm volatile("barrier.sync %0;" ::"r"(number) : "memory"); }
__GPULEND_DEVICE void __barrier_sync_count(unsigned int number, unsigned int threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__GPULEND_DEVICE void __syncwarp(unsigned int mask = 0xffffffffu) {
    asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory");
}
__GPULEND_DEVICE void __threadfence() { asm volatile("membar.gl;" ::: "memory"); }
__GPULEND_DEVICE void __threadfence_block() { asm volatile("membar.cta;" ::: "memory"); }
__GPULEND_DEVICE void __threadfence_system() { asm volatile("membar.sys;" ::: "memory"); }
