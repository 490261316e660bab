// Kernels whose blocks wait for each other. Each check that fails is printed with its line; the last line says how many.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace cg = cooperative_groups;

static int failures = 0;
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) printf("line %d: %s\n", __LINE__, #condition), failures++;                                   \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

// Halves what is left with each pass of the whole grid.
__global__ void sum(long long *x, int n) {
    cg::grid_group grid = cg::this_grid();
    for (int left = n; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        for (unsigned long long i = grid.thread_rank(); i < left / 2; i += grid.size()) x[i] += x[half + i];
        grid.sync();
    }
}

// Each point becomes the mean of its neighbours; the largest change ends the loop, for all blocks at once.
__global__ void jacobi(double *from, double *to, int width, int height, double enough, double *changes, int *steps) {
    cg::grid_group grid = cg::this_grid();
    __shared__ double change;
    for (int step = 0;; step++) {
        if (threadIdx.x == 0 && threadIdx.y == 0) change = 0;
        __syncthreads();
        double mine = 0;
        for (int y = 1 + blockIdx.y * blockDim.y + threadIdx.y; y < height - 1; y += gridDim.y * blockDim.y)
            for (int x = 1 + blockIdx.x * blockDim.x + threadIdx.x; x < width - 1; x += gridDim.x * blockDim.x) {
                int at = y * width + x;
                to[at] = (from[at - 1] + from[at + 1] + from[at - width] + from[at + width]) / 4;
                mine = fmax(mine, fabs(to[at] - from[at]));
            }
        // Doubles that are not negative are in the order of their bits.
        atomicMax(reinterpret_cast<unsigned long long *>(&change), __double_as_longlong(mine));
        __syncthreads();
        if (threadIdx.x == 0 && threadIdx.y == 0) changes[grid.block_rank()] = change;
        grid.sync();
        double most = 0;
        for (unsigned long long block = 0; block < grid.num_blocks(); block++) most = fmax(most, changes[block]);
        if (most <= enough) {
            if (grid.thread_rank() == 0) *steps = step + 1;
            return;
        }
        double *next = from;
        from = to, to = next;
        grid.sync();
    }
}

__global__ void describe(unsigned long long *out) {
    cg::grid_group grid = cg::this_grid();
    cg::sync(grid);
    unsigned long long at = 8 * grid.thread_rank();
    out[at] = grid.size() + (grid.num_threads() != grid.size()) + (cg::group_size(grid) != grid.size());
    out[at + 1] = grid.num_blocks();
    out[at + 2] = grid.block_rank();
    out[at + 3] = cg::thread_rank(grid);
    out[at + 4] = grid.dim_blocks().x * 10000 + grid.dim_blocks().y * 100 + grid.dim_blocks().z;
    out[at + 5] = grid.group_dim().x * 10000 + grid.group_dim().y * 100 + grid.group_dim().z;
    out[at + 6] = grid.block_index().x * 10000 + grid.block_index().y * 100 + grid.block_index().z;
    out[at + 7] = grid.is_valid();
}
__global__ void is_valid(int *out) { *out = cg::this_grid().is_valid(); }

// All blocks pass many barriers; each counts how often a block was behind or ahead.
__global__ void count(unsigned int *passed, unsigned int *wrong, int rounds) {
    cg::grid_group grid = cg::this_grid();
    for (int round = 0; round < rounds; round++) {
        if (threadIdx.x == 0) passed[blockIdx.x]++;
        grid.sync();
        for (int block = threadIdx.x; block < gridDim.x; block += blockDim.x)
            if (passed[block] != round + 1) atomicAdd(wrong, 1u);
        cg::grid_group::arrival_token token = grid.barrier_arrive();
        __syncwarp();
        grid.barrier_wait(std::move(token));
    }
}

// Mistakes.
__global__ void leaves(int *x) {
    if (blockIdx.x == 2) return;
    x[blockIdx.x] = 1;
    cg::this_grid().sync(); // WAITS
}
__global__ void misses(int *x) {
    __shared__ int tile[64];
    tile[threadIdx.x] = 0;
    cg::this_grid().sync();
    tile[threadIdx.x] = x[threadIdx.x] + threadIdx.x; // RACES
    if (x[64]) cg::this_grid().sync();
    x[threadIdx.x] = tile[63 - threadIdx.x];
    cg::this_grid().sync();
}

// The values are converted to the parameters' types.
template <class T> struct same {
    using type = T;
};
template <class... Arguments>
static cudaError_t together(void (*kernel)(Arguments...), dim3 grid, dim3 block, cudaStream_t stream,
                            typename same<Arguments>::type... values) {
    void *places[] = {&values...};
    return cudaLaunchCooperativeKernel(reinterpret_cast<void *>(kernel), grid, block, places, 0, stream);
}

template <class K> static int blocks_at_once(K *kernel, int threads) {
    int each = 0, processors = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0));
    OK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    return each * processors;
}

template <class T> static T *copied(const std::vector<T> &values) {
    T *x = nullptr;
    OK(cudaMalloc(&x, values.size() * sizeof(T)));
    OK(cudaMemcpy(x, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return x;
}

template <class T> static std::vector<T> taken(T *x, size_t count) {
    std::vector<T> values(count);
    OK(cudaMemcpy(values.data(), x, count * sizeof(T), cudaMemcpyDeviceToHost));
    OK(cudaFree(x));
    return values;
}

static void sums() {
    for (int n : {1, 2, 1000, 100003}) {
        std::vector<long long> values(n);
        long long wanted = 0;
        for (int i = 0; i < n; i++) wanted += values[i] = i * 7919LL % 1009;
        long long *x = copied(values);
        OK(together(sum, blocks_at_once(sum, 128), 128, 0, x, n));
        CHECK(taken(x, n)[0] == wanted);
    }
}

static void steps() {
    const int width = 61, height = 37;
    std::vector<double> from(width * height), to;
    for (int x = 0; x < width; x++) from[x] = 100;
    to = from;
    double *here = copied(from), *there = copied(to), *changes = copied(std::vector<double>(6));
    int *taken_steps = copied(std::vector<int>(1));
    OK(together(jacobi, dim3(3, 2), dim3(16, 4), 0, here, there, width, height, 0.05, changes, taken_steps));
    int wanted = 0;
    for (double change = 1; change > 0.05; wanted++) {
        if (wanted) std::swap(from, to);
        change = 0;
        for (int y = 1; y < height - 1; y++)
            for (int x = 1; x < width - 1; x++) {
                int at = y * width + x;
                to[at] = (from[at - 1] + from[at + 1] + from[at - width] + from[at + width]) / 4;
                double moved = to[at] - from[at];
                change = moved > change ? moved : -moved > change ? -moved : change;
            }
    }
    CHECK(wanted > 20);
    CHECK(taken(taken_steps, 1)[0] == wanted);
    CHECK(taken(wanted % 2 ? there : here, width * height) == to);
    OK(cudaFree(wanted % 2 ? here : there));
    OK(cudaFree(changes));
}

static void descriptions() {
    const int blocks = 2 * 3 * 2, threads = 4 * 2 * 3;
    unsigned long long *out = copied(std::vector<unsigned long long>(8 * blocks * threads));
    OK(together(describe, dim3(2, 3, 2), dim3(4, 2, 3), 0, out));
    std::vector<unsigned long long> found = taken(out, 8 * blocks * threads);
    for (unsigned long long rank = 0; rank < blocks * threads; rank++) {
        unsigned long long block = rank / threads;
        unsigned long long index = block % 2 * 10000 + block / 2 % 3 * 100 + block / 6;
        unsigned long long wanted[] = {blocks * threads, blocks, block, rank, 20302, 20302, index, 1};
        CHECK(memcmp(&found[8 * rank], wanted, sizeof wanted) == 0);
    }
}

static void limits() {
    int can = 0;
    cudaDeviceProp about;
    OK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
    OK(cudaGetDeviceProperties(&about, 0));
    CHECK(can == 1 && about.cooperativeLaunch == 1);
    long long *x = copied(std::vector<long long>(1));
    int most = blocks_at_once(sum, 256);
    OK(together(sum, most, 256, 0, x, 1));
    CHECK(together(sum, most + 1, 256, 0, x, 1) == cudaErrorCooperativeLaunchTooLarge);
    CHECK(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
    sum<<<most + 1, 256>>>(x, 1);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(x));
}

// Grids of one module on several streams, launched one by one, by an attribute, and by a graph.
static void streams() {
    const int rounds = 50, grids = 4;
    cudaStream_t stream[grids];
    unsigned int *passed[grids], *wrong = copied(std::vector<unsigned int>(1));
    int blocks = blocks_at_once(count, 64) / grids;
    blocks = blocks > 8 ? 8 : blocks;
    for (int i = 0; i < grids; i++) {
        OK(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
        passed[i] = copied(std::vector<unsigned int>(blocks));
    }
    for (int i = 0; i < grids; i++) OK(together(count, blocks, 64, stream[i], passed[i], wrong, rounds));
    OK(cudaDeviceSynchronize());
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = 64, config.stream = stream[0];
    config.attrs = &attribute, config.numAttrs = 1;
    for (int i = 0; i < grids; i++) OK(cudaMemset(passed[i], 0, blocks * sizeof(unsigned int)));
    OK(cudaDeviceSynchronize());
    OK(cudaLaunchKernelEx(&config, count, passed[0], wrong, rounds));
    OK(cudaStreamSynchronize(stream[0]));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    OK(cudaStreamBeginCapture(stream[1], cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(passed[1], 0, blocks * sizeof(unsigned int), stream[1]));
    OK(together(count, blocks, 64, stream[1], passed[1], wrong, rounds));
    OK(cudaStreamEndCapture(stream[1], &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(executable, stream[1]));
    OK(cudaStreamSynchronize(stream[1]));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    CHECK(taken(wrong, 1)[0] == 0);
    for (int i = 0; i < grids; i++) {
        OK(cudaFree(passed[i]));
        OK(cudaStreamDestroy(stream[i]));
    }
}

// A kernel with a mistake, launched cooperatively or not.
static int mistaken(void (*kernel)(int *), bool cooperative) {
    int *x = copied(std::vector<int>(65));
    if (cooperative)
        OK(together(kernel, 4, 64, 0, x));
    else
        kernel<<<4, 64>>>(x);
    puts(cudaGetErrorName(cudaDeviceSynchronize()));
    return failures;
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "leaves") == 0) return mistaken(leaves, true);
    if (count > 1 && strcmp(words[1], "misses") == 0) return mistaken(misses, true);
    if (count > 1 && strcmp(words[1], "plain") == 0) return mistaken(leaves, false);
    if (count > 1 && strcmp(words[1], "valid") == 0) {
        int *out = copied(std::vector<int>(1, 7));
        is_valid<<<1, 1>>>(out);
        printf("%d\n", taken(out, 1)[0]);
        return failures;
    }
    sums();
    steps();
    descriptions();
    limits();
    streams();
    printf("%d failures\n", failures);
}
