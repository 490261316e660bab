#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void launched_plainly(int *values) {
    cg::grid_group grid = cg::this_grid();
    int value = values[grid.size() - 1 - grid.thread_rank()];
    grid.sync(); // HERE
    values[grid.thread_rank()] = value;
}
