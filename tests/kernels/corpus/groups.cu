// Cooperative groups: the block, and tiles of it.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// The sums of tiles of 8, and of 32.
extern "C" __global__ void sum_of_tiles(const int *values, int *eights, int *warps) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> eight = cg::tiled_partition<8>(block);
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = values[i];
    for (int offset = eight.size() / 2; offset > 0; offset /= 2) sum += eight.shfl_down(sum, offset);
    if (eight.thread_rank() == 0) eights[i / 8] = sum;
    sum = values[i];
    for (int offset = warp.size() / 2; offset > 0; offset /= 2) sum += warp.shfl_xor(sum, offset);
    if (warp.thread_rank() == 31) warps[i / 32] = sum;
}

// The block's barrier as a member.
extern "C" __global__ void reverse_block(const int *values, int *out) {
    __shared__ int tile[64];
    cg::thread_block block = cg::this_thread_block();
    tile[block.thread_rank()] = values[blockIdx.x * block.size() + block.thread_rank()];
    block.sync();
    out[blockIdx.x * block.size() + block.thread_rank()] = tile[63 - block.thread_rank()];
}
