// Cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void groups(int *i, unsigned *u, float *f) {
    cg::thread_block block = cg::this_thread_block();
    block.sync(), cg::sync(block);
    u[0] = block.thread_rank() + block.size() + block.num_threads() + block.group_index().x + block.thread_index().y
           + block.group_dim().z + block.dim_threads().x + cg::thread_rank(block) + cg::group_size(block);
    auto warp = cg::tiled_partition<32>(block);
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(warp).size() ? cg::thread_block_tile<8>() : cg::thread_block_tile<8>();
    warp.sync();
    int all;
    u[1] = tile.thread_rank() + tile.size() + tile.num_threads() + tile.meta_group_rank() + tile.meta_group_size()
           + tile.ballot(i[0]) + tile.any(i[0]) + tile.all(i[0]) + tile.match_any(i[0]) + tile.match_all(i[0], all) + all;
    f[0] = tile.shfl(f[1], 0) + tile.shfl_up(f[1], 1) + tile.shfl_down(f[1], 1) + tile.shfl_xor(f[1], 1);
    f[1] = cg::reduce(tile, f[2], cg::plus<float>()) + cg::reduce(tile, f[2], cg::less<float>());
    i[1] = cg::reduce(tile, i[2], cg::greater<int>()) + cg::reduce(tile, i[2], cg::bit_and<int>())
           + cg::reduce(tile, i[2], cg::bit_or<int>()) + cg::reduce(tile, i[2], cg::bit_xor<int>());
    cg::grid_group grid = cg::this_grid();
    grid.sync(), cg::sync(grid), grid.barrier_wait(grid.barrier_arrive());
    u[3] = grid.thread_rank() + grid.size() + grid.num_threads() + grid.block_rank() + grid.num_blocks() + grid.is_valid()
           + grid.dim_blocks().x + grid.group_dim().y + grid.block_index().z;
    if (threadIdx.x & 1) {
        auto together = cg::coalesced_threads();
        u[2] = together.size() + together.num_threads() + together.thread_rank() + together.ballot(i[3]);
        f[2] = together.shfl(f[3], 0) + together.shfl_up(f[3], 1) + together.shfl_down(f[3], 1)
               + cg::reduce(together, f[3], cg::plus<float>());
    }
}
