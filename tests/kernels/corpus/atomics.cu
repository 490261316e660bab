// Every kind of atomic, all threads on the same few words.

// cells: add, sub, min, max, and, or, xor, exch
extern "C" __global__ void atomics_int(int *cells, const int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int value = values[i];
    atomicAdd(&cells[0], value);
    atomicSub(&cells[1], value);
    atomicMin(&cells[2], value);
    atomicMax(&cells[3], value);
    atomicAnd(&cells[4], value);
    atomicOr(&cells[5], value);
    atomicXor(&cells[6], value);
    atomicExch(&cells[7], value);
}

// cells: as above, then inc up to 1000, dec down from 1000
extern "C" __global__ void atomics_unsigned(unsigned int *cells, const unsigned int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int value = values[i];
    atomicAdd(&cells[0], value);
    atomicSub(&cells[1], value);
    atomicMin(&cells[2], value);
    atomicMax(&cells[3], value);
    atomicAnd(&cells[4], value);
    atomicOr(&cells[5], value);
    atomicXor(&cells[6], value);
    atomicExch(&cells[7], value);
    atomicInc(&cells[8], 1000u);
    atomicDec(&cells[9], 1000u);
}

// cells: add, min, max, and, or, xor, exch
extern "C" __global__ void atomics_long(unsigned long long *cells, const unsigned long long *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long value = values[i];
    atomicAdd(&cells[0], value);
    atomicMin(&cells[1], value);
    atomicMax(&cells[2], value);
    atomicAnd(&cells[3], value);
    atomicOr(&cells[4], value);
    atomicXor(&cells[5], value);
    atomicExch(&cells[6], value);
}

extern "C" __global__ void atomics_floating(float *single, double *wide, const float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(single, values[i]);
    atomicAdd(wide, (double)values[i]);
}

// What each atomic gives back: every ticket exactly once.
extern "C" __global__ void tickets(int *counter, unsigned long long *wide_counter, int *seen, int *wide_seen, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    seen[atomicAdd(counter, 1)] = i;
    wide_seen[atomicAdd(wide_counter, 1ull)] = i;
}

__device__ float max_of_floats(float *cell, float value) {
    int *bits = (int *)cell;
    int was = atomicAdd(bits, 0);
    while (__int_as_float(was) < value) {
        int found = atomicCAS(bits, was, __float_as_int(value));
        if (found == was) break;
        was = found;
    }
    return __int_as_float(was);
}

extern "C" __global__ void greatest_by_swap(float *cell, const float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) max_of_floats(cell, values[i]);
}

// Numbers are pushed on a stack by their place; each push that finds the stack full is counted instead.
extern "C" __global__ void push(int *top, int *stack, int capacity, int *refused, const int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int was = atomicAdd(top, 0);
    for (;;) {
        if (was == capacity) {
            atomicAdd(refused, 1);
            return;
        }
        int found = atomicCAS(top, was, was + 1);
        if (found == was) break;
        was = found;
    }
    stack[was] = values[i];
}

// In shared memory: 32 and 64 bits, whole and floating. 128 threads.
extern "C" __global__ void atomics_shared(int *sum, unsigned long long *wide_sum, float *single, int *swapped) {
    __shared__ int cell, owner;
    __shared__ unsigned long long wide;
    __shared__ float floating;
    if (threadIdx.x == 0) {
        cell = 0;
        owner = -1;
        wide = 0;
        floating = 0.0f;
    }
    __syncthreads();
    atomicAdd(&cell, (int)threadIdx.x);
    atomicAdd(&wide, (unsigned long long)threadIdx.x << 32);
    atomicAdd(&floating, 0.5f);
    bool first = atomicCAS(&owner, -1, (int)threadIdx.x) == -1;
    int firsts = __syncthreads_count(first);
    if (threadIdx.x == 0) {
        sum[blockIdx.x] = cell;
        wide_sum[blockIdx.x] = wide;
        single[blockIdx.x] = floating;
        swapped[blockIdx.x] = firsts;
    }
}
