// nvcuda::wmma: 2 A B + C of each shape, type and order, with what was given and what came out written to a file.
#include <cstdio>
#include <cuda_fp16.h>
#include <mma.h>
#include <type_traits>
#include <vector>

using namespace nvcuda;

template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C, class D>
__global__ void multiply(const T *a, const T *b, const C *c, D *d, int lda, int ldb, int ldc, wmma::layout_t layout) {
    wmma::fragment<wmma::matrix_a, m, n, k, T, LayoutA> left;
    wmma::fragment<wmma::matrix_b, m, n, k, T, LayoutB> right;
    wmma::fragment<wmma::accumulator, m, n, k, C> start, once;
    wmma::fragment<wmma::accumulator, m, n, k, D> sum;
    wmma::load_matrix_sync(left, a, lda);
    wmma::load_matrix_sync(right, b, ldb);
    wmma::load_matrix_sync(start, c, ldc, layout);
    wmma::fill_fragment(once, C(0));
    wmma::mma_sync(once, left, right, once);
    wmma::mma_sync(sum, left, right, start);
    for (int i = 0; i < sum.num_elements; i++) sum.x[i] = sum.x[i] + static_cast<D>(once.x[i]);
    wmma::store_matrix_sync(d, sum, ldc, layout);
}

static unsigned int seed = 1;
static int draw(int limit) {
    seed = seed * 1664525 + 1013904223;
    return static_cast<int>(seed >> 16) % (2 * limit + 1) - limit;
}

template <class T> static void note(FILE *to, const std::vector<T> &values) {
    for (T value : values) {
        double number = static_cast<double>(static_cast<float>(value));
        fwrite(&number, sizeof number, 1, to);
    }
}
template <> void note(FILE *to, const std::vector<int> &values) {
    std::vector<double> numbers(values.begin(), values.end());
    fwrite(numbers.data(), sizeof(double), numbers.size(), to);
}

template <class T> static T *copied(const std::vector<T> &values) {
    T *there;
    cudaMalloc(&there, values.size() * sizeof(T));
    cudaMemcpy(there, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
    return there;
}

template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C, class D>
static void one(FILE *to, bool rows) {
    // Rows or columns have more room than they need.
    const int more = 8;
    bool rows_a = std::is_same<LayoutA, wmma::row_major>::value, rows_b = std::is_same<LayoutB, wmma::row_major>::value;
    int lda = (rows_a ? k : m) + more, ldb = (rows_b ? n : k) + more, ldc = (rows ? n : m) + more;
    const int limit = sizeof(T) == 1 ? 127 : 7;
    std::vector<T> a(lda * (rows_a ? m : k)), b(ldb * (rows_b ? k : n));
    std::vector<C> c(ldc * (rows ? m : n));
    std::vector<D> d(c.size());
    for (T &value : a) value = static_cast<T>(std::is_same<T, unsigned char>::value ? draw(127) + 127 : draw(limit));
    for (T &value : b) value = static_cast<T>(draw(limit));
    for (C &value : c) value = static_cast<C>(static_cast<float>(draw(100)));
    for (D &value : d) value = static_cast<D>(0.0f);
    T *device_a = copied(a), *device_b = copied(b);
    C *device_c = copied(c);
    D *device_d = copied(d);
    multiply<m, n, k, T, LayoutA, LayoutB, C, D><<<1, 32>>>(device_a, device_b, device_c, device_d, lda, ldb, ldc,
                                                           rows ? wmma::mem_row_major : wmma::mem_col_major);
    cudaMemcpy(d.data(), device_d, d.size() * sizeof(D), cudaMemcpyDeviceToHost);
    const std::vector<int> about = {m, n, k, rows_a, rows_b, rows, lda, ldb, ldc};
    note(to, about), note(to, a), note(to, b), note(to, c), note(to, d);
}

template <int m, int n, int k, class T, class C, class D> static void orders(FILE *to) {
    one<m, n, k, T, wmma::row_major, wmma::col_major, C, D>(to, true);
    one<m, n, k, T, wmma::col_major, wmma::row_major, C, D>(to, false);
    one<m, n, k, T, wmma::row_major, wmma::row_major, C, D>(to, true);
}
template <class T, class C, class D> static void shapes(FILE *to) {
    orders<16, 16, 16, T, C, D>(to);
    orders<32, 8, 16, T, C, D>(to);
    orders<8, 32, 16, T, C, D>(to);
}

// Clamped where a sum has no room.
__global__ void saturate(int *to) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
    wmma::fill_fragment(a, static_cast<signed char>(1));
    wmma::fill_fragment(b, static_cast<signed char>(1));
    wmma::fill_fragment(sum, 0x7ffffff8);
    wmma::mma_sync(sum, a, b, sum, true);
    wmma::store_matrix_sync(to, sum, 16, wmma::mem_row_major);
}

int main(int, char **arguments) {
    FILE *to = fopen(arguments[1], "wb");
    shapes<__half, float, float>(to);
    shapes<__half, __half, __half>(to);
    shapes<__half, __half, float>(to);
    shapes<signed char, int, int>(to);
    shapes<unsigned char, int, int>(to);
    fclose(to);
    int *sums, value = 0;
    cudaMalloc(&sums, 256 * sizeof value);
    saturate<<<1, 32>>>(sums);
    cudaMemcpy(&value, sums + 255, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d %s\n", value, cudaGetErrorName(cudaGetLastError()));
}
