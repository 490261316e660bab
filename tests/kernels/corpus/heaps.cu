// Memory that kernels allocate and free.
struct Node {
    Node *next;
    int value;
};

// Each thread makes a list, reads it, and frees it.
extern "C" __global__ void lists(int *out, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Node *first = nullptr;
    for (int k = 0; k < length; ++k) {
        Node *node = (Node *)malloc(sizeof(Node));
        if (!node) {
            out[i] = -1;
            return;
        }
        node->next = first;
        node->value = i + k;
        first = node;
    }
    int sum = 0;
    while (first) {
        Node *next = first->next;
        sum += first->value;
        free(first);
        first = next;
    }
    out[i] = sum;
}

// Blocks of one kernel live on: another uses them, a third frees them.
extern "C" __global__ void make_blocks(unsigned long long *blocks) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int *block = (int *)malloc(sizeof(int) * (i % 50 + 1));
    for (int k = 0; k <= i % 50; ++k) block[k] = i + k;
    blocks[i] = (unsigned long long)block;
}

extern "C" __global__ void use_blocks(const unsigned long long *blocks, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, other = n - 1 - i, sum = 0;
    const int *block = (const int *)blocks[other];
    for (int k = 0; k <= other % 50; ++k) sum += block[k];
    out[i] = sum;
}

extern "C" __global__ void free_blocks(const unsigned long long *blocks, int n) {
    free((void *)blocks[n - 1 - (blockIdx.x * blockDim.x + threadIdx.x)]);
}

// As many blocks as there is room for, twice.
extern "C" __global__ void exhaust(int *out, int bytes) {
    for (int round = 0; round < 2; ++round) {
        void **last = nullptr;
        int count = 0;
        while (void **block = (void **)malloc(bytes)) {
            *block = last;
            last = block;
            ++count;
        }
        out[round] = count;
        while (last) {
            void **before = (void **)*last;
            free(last);
            last = before;
        }
    }
    out[2] = malloc(1ull << 62) == nullptr;
}

// Objects of two classes, made by `new` and ended through a virtual destructor.
struct Animal {
    int *count;
    __device__ Animal(int *count) : count(count) {}
    __device__ virtual int legs() const = 0;
    __device__ virtual ~Animal() {}
    __device__ static void *operator new(size_t bytes) { return malloc(bytes); }
    __device__ static void operator delete(void *at) { free(at); }
};
struct Bird : Animal {
    __device__ Bird(int *count) : Animal(count) {}
    __device__ int legs() const override { return 2; }
    __device__ ~Bird() override { atomicAdd(count, 1); }
};
struct Insect : Animal {
    int more = 4;
    __device__ Insect(int *count) : Animal(count) {}
    __device__ int legs() const override { return 2 + more; }
    __device__ ~Insect() override { atomicAdd(count, 1000); }
};

extern "C" __global__ void animals(int *out, int *count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Animal *animal = i % 3 ? (Animal *)new Bird(count) : new Insect(count);
    __syncthreads();
    out[i] = animal->legs();
    delete animal;
}

// One thread allocates for its block.
extern "C" __global__ void block_memory(int *out) {
    __shared__ int *tile;
    if (threadIdx.x == 0) tile = (int *)malloc(sizeof(int) * blockDim.x);
    __syncthreads();
    tile[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(tile);
}
