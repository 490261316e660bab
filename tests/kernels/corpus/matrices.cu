// Matrices, row by row.

template <typename T> __device__ void multiply_tiled(const T *a, const T *b, T *c, int rows, int columns, int inner) {
    __shared__ T left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    T sum = 0;
    for (int start = 0; start < inner; start += 16) {
        int across = start + threadIdx.x, down = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < rows && across < inner ? a[row * inner + across] : T(0);
        right[threadIdx.y][threadIdx.x] = down < inner && column < columns ? b[down * columns + column] : T(0);
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

extern "C" __global__ void multiply_float(const float *a, const float *b, float *c, int rows, int columns, int inner) {
    multiply_tiled(a, b, c, rows, columns, inner);
}

// Of whole tiles only.
extern "C" __global__ void multiply_square(const float *a, const float *b, float *c, int side) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < side; start += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * side + start + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * side + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * side + column] = sum;
}

extern "C" __global__ void multiply_double(const double *a, const double *b, double *c, int rows, int columns, int inner) {
    multiply_tiled(a, b, c, rows, columns, inner);
}

extern "C" __global__ void multiply_int(const int *a, const int *b, int *c, int rows, int columns, int inner) {
    multiply_tiled(a, b, c, rows, columns, inner);
}

extern "C" __global__ void multiply_naive(const float *a, const float *b, float *c, int rows, int columns, int inner) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || column >= columns) return;
    float sum = 0.0f;
    for (int k = 0; k < inner; ++k) sum += a[row * inner + k] * b[k * columns + column];
    c[row * columns + column] = sum;
}

extern "C" __global__ void transpose_naive(const double *from, double *to, int rows, int columns) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && column < columns) to[column * rows + row] = from[row * columns + column];
}

// 32 × 8 threads; a column more than needed keeps a column's elements in different banks.
extern "C" __global__ void transpose_tiled(const float *from, float *to, int rows, int columns) {
    __shared__ float tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8)
        if (row + step < rows && column < columns) tile[threadIdx.y + step][threadIdx.x] = from[(row + step) * columns + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x;
    row = blockIdx.x * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8)
        if (row + step < columns && column < rows) to[(row + step) * rows + column] = tile[threadIdx.x][threadIdx.y + step];
}

struct Matrix3 {
    double at[3][3];
};

__device__ double determinant(Matrix3 m) {
    return m.at[0][0] * (m.at[1][1] * m.at[2][2] - m.at[1][2] * m.at[2][1]) -
           m.at[0][1] * (m.at[1][0] * m.at[2][2] - m.at[1][2] * m.at[2][0]) +
           m.at[0][2] * (m.at[1][0] * m.at[2][1] - m.at[1][1] * m.at[2][0]);
}

// A struct by value as a parameter of the kernel and of a function: det(all[i] · factor).
extern "C" __global__ void determinants(const Matrix3 *all, Matrix3 factor, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Matrix3 product;
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column) {
            double sum = 0;
            for (int k = 0; k < 3; ++k) sum += all[i].at[row][k] * factor.at[k][column];
            product.at[row][column] = sum;
        }
    out[i] = determinant(product);
}
