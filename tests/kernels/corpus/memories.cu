// Shared memory of the launch, variables of the module, constants, memory of a thread's own.

// Two arrays in one piece of shared memory: `n` doubles, then as many bytes.
extern "C" __global__ void carve(const double *values, const unsigned char *bytes, double *out, int n) {
    extern __shared__ double doubles[];
    unsigned char *small = (unsigned char *)(doubles + n);
    int i = threadIdx.x;
    doubles[i] = values[blockIdx.x * n + i];
    small[i] = bytes[blockIdx.x * n + i];
    __syncthreads();
    out[blockIdx.x * n + i] = doubles[n - 1 - i] * small[(i + 1) % n];
}

__device__ int launches = 40;
__device__ double table[4] = {1.5, 2.5, 3.5, 4.5};
__device__ const char *greeting = "hello";
__constant__ int offsets[3] = {100, 200, 300};
__constant__ float scale;

extern "C" __global__ void use_variables(double *out, char *text) {
    int i = threadIdx.x;
    if (i < 4) {
        out[i] = table[i] * scale + offsets[i % 3];
        table[i] += i;
    }
    if (i < 6) text[i] = greeting[i];
    if (i == 0) ++launches;
}

// An array in local memory, indexed by data: the values of a row, sorted by insertion.
extern "C" __global__ void sort_rows(int *rows, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int local[16];
    for (int k = 0; k < 16; ++k) {
        int value = rows[i * 16 + k], at = k;
        for (; at > 0 && local[at - 1] > value; --at) local[at] = local[at - 1];
        local[at] = value;
    }
    for (int k = 0; k < 16; ++k) rows[i * 16 + k] = local[k];
}

struct Particle {
    double position;
    float speed;
    short kind;
    unsigned char flag;
};

extern "C" __global__ void move_particles(Particle *particles, double time, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Particle particle = particles[i];
    if (particle.kind >= 0) particle.position += particle.speed * time;
    particle.kind = (short)-particle.kind;
    particle.flag ^= 0xff;
    particles[i] = particle;
}

// Rows that lie anywhere, found through an array of their addresses.
extern "C" __global__ void sum_rows(const int *const *rows, const int *lengths, int *sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int sum = 0;
    for (int k = 0; k < lengths[i]; ++k) sum += rows[i][k];
    sums[i] = sum;
}
