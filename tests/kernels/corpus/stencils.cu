// Each cell from its neighbours. Beyond the edge lies the edge again, or nothing.

__device__ int clamped(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

// The sum of 7 neighbours; 128 threads, halo of 3.
extern "C" __global__ void stencil_1d(const int *from, int *to, int n) {
    __shared__ int tile[128 + 6];
    int i = blockIdx.x * 128 + threadIdx.x;
    tile[threadIdx.x + 3] = from[clamped(i, n)];
    if (threadIdx.x < 3) {
        tile[threadIdx.x] = from[clamped(i - 3, n)];
        tile[threadIdx.x + 131] = from[clamped(i + 128, n)];
    }
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < 7; ++k) sum += tile[threadIdx.x + k];
    if (i < n) to[i] = sum;
}

// One step of heat: 16 × 16 threads, halo of 1, corners unused.
extern "C" __global__ void stencil_2d(const float *from, float *to, int width, int height) {
    __shared__ float tile[18][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    int column = threadIdx.x + 1, row = threadIdx.y + 1;
    int here_x = clamped(x, width), here_y = clamped(y, height);
    tile[row][column] = from[here_y * width + here_x];
    if (threadIdx.x == 0) tile[row][0] = from[here_y * width + clamped(x - 1, width)];
    if (threadIdx.x == 15) tile[row][17] = from[here_y * width + clamped(x + 1, width)];
    if (threadIdx.y == 0) tile[0][column] = from[clamped(y - 1, height) * width + here_x];
    if (threadIdx.y == 15) tile[17][column] = from[clamped(y + 1, height) * width + here_x];
    __syncthreads();
    float around = tile[row - 1][column] + tile[row + 1][column] + tile[row][column - 1] + tile[row][column + 1];
    if (x < width && y < height) to[y * width + x] = 0.5f * tile[row][column] + 0.125f * around;
}

// Six neighbours less six times the middle; 8 × 8 × 4 threads; the cube is a number of whole blocks.
extern "C" __global__ void stencil_3d(const double *from, double *to, int width, int height, int depth) {
    __shared__ double tile[6][10][10];
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z * 4 + threadIdx.z;
    int i = threadIdx.x + 1, j = threadIdx.y + 1, k = threadIdx.z + 1;
    int plane = width * height;
    tile[k][j][i] = from[z * plane + y * width + x];
    if (i == 1) tile[k][j][0] = x > 0 ? from[z * plane + y * width + x - 1] : 0.0;
    if (i == 8) tile[k][j][9] = x + 1 < width ? from[z * plane + y * width + x + 1] : 0.0;
    if (j == 1) tile[k][0][i] = y > 0 ? from[z * plane + (y - 1) * width + x] : 0.0;
    if (j == 8) tile[k][9][i] = y + 1 < height ? from[z * plane + (y + 1) * width + x] : 0.0;
    if (k == 1) tile[0][j][i] = z > 0 ? from[(z - 1) * plane + y * width + x] : 0.0;
    if (k == 4) tile[5][j][i] = z + 1 < depth ? from[(z + 1) * plane + y * width + x] : 0.0;
    __syncthreads();
    double sum = tile[k][j][i - 1] + tile[k][j][i + 1] + tile[k][j - 1][i] + tile[k][j + 1][i] + tile[k - 1][j][i] +
                 tile[k + 1][j][i];
    to[z * plane + y * width + x] = sum - 6.0 * tile[k][j][i];
}

// Set by the host.
__constant__ float weights[9];

extern "C" __global__ void convolve(const float *from, float *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 9; ++k) {
        int at = i + k - 4;
        if (at >= 0 && at < n) sum += weights[k] * from[at];
    }
    to[i] = sum;
}

extern "C" __global__ void game_of_life(const unsigned char *from, unsigned char *to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int alive = 0;
    for (int dy = height - 1; dy <= height + 1; ++dy)
        for (int dx = width - 1; dx <= width + 1; ++dx) alive += from[(y + dy) % height * width + (x + dx) % width];
    int here = from[y * width + x];
    to[y * width + x] = alive == 3 || (here && alive == 4);
}

// The mean of the bytes around, as far as there are any, rounded down.
extern "C" __global__ void box_blur(const unsigned char *from, unsigned char *to, int width, int height, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int sum = 0, count = 0;
    for (int row = max(y - radius, 0); row <= min(y + radius, height - 1); ++row)
        for (int column = max(x - radius, 0); column <= min(x + radius, width - 1); ++column) {
            sum += from[row * width + column];
            ++count;
        }
    to[y * width + x] = (unsigned char)(sum / count);
}
