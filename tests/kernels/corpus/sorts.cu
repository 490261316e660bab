// Sorting.

// One block, two elements a thread, 1024 elements.
extern "C" __global__ void bitonic_sort(int *values) {
    __shared__ int item[1024];
    item[threadIdx.x] = values[threadIdx.x];
    item[threadIdx.x + 512] = values[threadIdx.x + 512];
    for (int size = 2; size <= 1024; size *= 2)
        for (int distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            int low = 2 * threadIdx.x - (threadIdx.x & (distance - 1)), high = low + distance;
            bool rising = (low & size) == 0;
            if ((item[low] > item[high]) == rising) {
                int was = item[low];
                item[low] = item[high];
                item[high] = was;
            }
        }
    __syncthreads();
    values[threadIdx.x] = item[threadIdx.x];
    values[threadIdx.x + 512] = item[threadIdx.x + 512];
}

// One block; neighbours change places, even pairs and odd pairs by turns.
extern "C" __global__ void odd_even_sort(float *values, int n) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = values[i];
    for (int phase = 0; phase < n; ++phase) {
        __syncthreads();
        int left = 2 * threadIdx.x + (phase & 1);
        if (left + 1 < n && row[left] > row[left + 1]) {
            float was = row[left];
            row[left] = row[left + 1];
            row[left + 1] = was;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = row[i];
}

// One bit of a stable radix sort in one block of 256: zeros to the front, ones behind them.
extern "C" __global__ void radix_pass(const unsigned int *from, unsigned int *to, int bit) {
    __shared__ int ones_of_warp[8];
    unsigned int key = from[threadIdx.x];
    bool one = (key >> bit) & 1;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned int ones = __ballot_sync(0xffffffffu, one);
    if (lane == 0) ones_of_warp[warp] = __popc(ones);
    __syncthreads();
    int before = __popc(ones & ((1u << lane) - 1)), all = 0;
    for (int w = 0; w < 8; ++w) {
        if (w < warp) before += ones_of_warp[w];
        all += ones_of_warp[w];
    }
    int place = one ? 256 - all + before : int(threadIdx.x) - before;
    to[place] = key;
}

// Runs of `width` sorted elements become runs of twice that: each element finds its place in the other run.
extern "C" __global__ void merge_step(const int *from, int *to, int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int start = i / (2 * width) * (2 * width);
    bool first = i < start + width;
    int low = min(first ? start + width : start, n), other = low;
    int high = min(low + width, n);
    while (low < high) {
        int middle = (low + high) / 2;
        bool goes_before = first ? from[middle] < from[i] : from[middle] <= from[i];
        if (goes_before)
            low = middle + 1;
        else
            high = middle;
    }
    to[i - (first ? 0 : width) + (low - other)] = from[i];
}
