// Functions called through their addresses.

typedef int (*Operation)(int, int);
__device__ __noinline__ int added(int a, int b) { return a + b; }
__device__ __noinline__ int multiplied(int a, int b) { return a * b; }
__device__ __noinline__ int greater(int a, int b) { return a > b ? a : b; }
__device__ Operation operations[3] = {added, multiplied, greater};
__constant__ Operation constants[2] = {greater, added};
__device__ Operation chosen = multiplied;

extern "C" __global__ void call_through_table(const int *which, const int *a, const int *b, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = operations[which[i]](a[i], b[i]) + 1000 * constants[which[i] & 1](b[i], a[i]);
}

extern "C" __global__ void call_variable(const int *a, const int *b, int *out) {
    int i = threadIdx.x;
    out[i] = chosen(a[i], b[i]);
}

extern "C" __global__ void set_variable(int which) { chosen = operations[which]; }

// The host passes what a kernel told it.
extern "C" __global__ void tell_addresses(unsigned long long *out) {
    out[threadIdx.x] = (unsigned long long)operations[threadIdx.x];
}

extern "C" __global__ void call_parameter(unsigned long long address, const int *a, const int *b, int *out) {
    int i = threadIdx.x;
    out[i] = ((Operation)address)(a[i], b[i]);
}

// Each thread has pointers in memory of its own, and a function that takes one calls it.
__device__ __noinline__ int applied(Operation operation, int times, int a, int b) {
    for (int i = 0; i < times; ++i) a = operation(a, b);
    return a;
}

extern "C" __global__ void choose_per_thread(const int *a, const int *b, int *out) {
    int i = threadIdx.x;
    Operation own[4] = {added, greater, multiplied, added};
    own[i & 3] = i & 4 ? greater : added;
    out[i] = applied(own[i % 3], i & 3, a[i], b[i]);
}

// Two classes with virtual functions: one pointer to each kind, chosen by a value.
struct Shape {
    float size;
    __device__ Shape(float size) : size(size) {}
    __device__ virtual float area() const = 0;
    __device__ virtual float scaled(float by) const { return by * area(); }
    __device__ static void *operator new(size_t, void *at) { return at; }
};
struct Square : Shape {
    __device__ Square(float size) : Shape(size) {}
    __device__ float area() const override { return size * size; }
};
struct Triangle : Square {
    __device__ Triangle(float size) : Square(size) {}
    __device__ float area() const override { return 0.5f * Square::area(); }
    __device__ float scaled(float by) const override { return -by * area(); }
};

extern "C" __global__ void virtual_functions(const int *which, float *out) {
    int i = threadIdx.x;
    Square square(i);
    Triangle triangle(i + 1);
    const Shape *shape = which[i] ? (const Shape *)&triangle : &square;
    out[i] = shape->area() + 1000.0f * shape->scaled(2.0f);
}

// One kernel makes objects in memory of the device, another uses them.
extern "C" __global__ void make_shapes(const int *which, char *memory) {
    int i = threadIdx.x;
    if (which[i]) new (memory + 16 * i) Triangle(i);
    else new (memory + 16 * i) Square(i);
}

extern "C" __global__ void use_shapes(const char *memory, float *out) {
    int i = threadIdx.x;
    out[i] = ((const Shape *)(memory + 16 * (blockDim.x - 1 - i)))->scaled(3.0f);
}

// Functions in which the block waits.
typedef float (*Reduction)(float *, float);
__device__ __noinline__ float sum_of_block(float *shared, float own) {
    shared[threadIdx.x] = own;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    float sum = shared[0];
    __syncthreads();
    return sum;
}
__device__ __noinline__ float greatest_of_block(float *shared, float own) {
    shared[threadIdx.x] = own;
    __syncthreads();
    float greatest = own;
    for (int i = 0; i < blockDim.x; ++i) greatest = fmaxf(greatest, shared[i]);
    __syncthreads();
    return greatest;
}
__device__ Reduction reductions[2] = {sum_of_block, greatest_of_block};

extern "C" __global__ void reduce_through_table(const int *which, const float *x, float *out) {
    __shared__ float shared[128];
    float own = x[blockIdx.x * blockDim.x + threadIdx.x];
    out[blockIdx.x * blockDim.x + threadIdx.x] = reductions[which[blockIdx.x]](shared, own);
}
