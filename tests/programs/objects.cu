// Objects with virtual functions, function pointers, and memory that kernels allocate.
#include <cstdio>
#include <new>

static int failures = 0;
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) printf("line %d: %s\n", __LINE__, #condition), failures++;                                   \
    } while (0)

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float side) : side(side) {}
    __device__ float area() const override { return side * side; }
};
struct Oblong : Square {
    float other;
    __device__ Oblong(float side, float other) : Square(side), other(other) {}
    __device__ float area() const override { return side * other; }
};

// Made by one kernel, used by a second, deleted by a third.
__global__ void make(Shape **shapes) {
    float side = threadIdx.x;
    shapes[threadIdx.x] = threadIdx.x % 2 ? new Square(side) : new Oblong(side, 10);
}
__global__ void measure(Shape **shapes, float *areas) { areas[threadIdx.x] = shapes[threadIdx.x]->area(); }
__global__ void destroy(Shape **shapes) { delete shapes[threadIdx.x]; }

typedef int (*Function)(int);
__device__ int twice(int value) { return 2 * value; }
__device__ int thrice(int value) { return 3 * value; }
__device__ Function table[2] = {twice, thrice};
__global__ void apply(int *values) { values[threadIdx.x] = table[threadIdx.x % 2](values[threadIdx.x]); }

__device__ void *volatile kept;
__global__ void place(int *results) {
    __shared__ __align__(16) char room[sizeof(Oblong)];
    if (threadIdx.x != 0) return;
    Shape *shape = new (room) Oblong(3, 4);
    results[0] = int(shape->area());
    int *numbers = new int[10];
    for (int i = 0; i < 10; i++) numbers[i] = i * i;
    results[1] = numbers[9];
    delete[] numbers;
    // Through variables that others could see: a compiler leaves out memory that nobody else knows of.
    kept = malloc(100);
    memset(kept, 7, 100);
    results[2] = static_cast<char *>(kept)[99];
    free(kept);
    kept = malloc(size_t(1) << 40);
    results[3] = kept == nullptr;
}

int main() {
    Shape **shapes;
    float *areas, found[8];
    cudaMalloc(&shapes, 8 * sizeof *shapes);
    cudaMalloc(&areas, sizeof found);
    make<<<1, 8>>>(shapes);
    measure<<<1, 8>>>(shapes, areas);
    destroy<<<1, 8>>>(shapes);
    CHECK(cudaMemcpy(found, areas, sizeof found, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (int i = 0; i < 8; i++) CHECK(found[i] == (i % 2 ? i * i : i * 10));

    int *values, numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    cudaMalloc(&values, sizeof numbers);
    cudaMemcpy(values, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    apply<<<1, 8>>>(values);
    CHECK(cudaMemcpy(numbers, values, sizeof numbers, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (int i = 0; i < 8; i++) CHECK(numbers[i] == (i + 1) * (i % 2 ? 3 : 2));

    place<<<1, 32>>>(values);
    CHECK(cudaMemcpy(numbers, values, sizeof numbers, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(numbers[0] == 12 && numbers[1] == 81 && numbers[2] == 7 && numbers[3] == 1);
    int *host = new int(3);
    CHECK(*host == 3);
    delete host;
    printf("%d failures\n", failures);
    return failures != 0;
}
