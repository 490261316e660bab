// Small floats and packed integers, on both sides. Reads words from a file and writes what each function makes of them to another.
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_fp8.h>

// Results of one word of 64 bits, which is a double, and whose parts are other inputs.
struct Row {
    unsigned char of_double[4], of_float[4], of_half[4], of_bfloat16[4];
    unsigned char by_class[8], of_int[2];
    unsigned short pairs[4], others[4];
    unsigned int fours[4];
    float back[2], pair_back[4], four_back[4];
    unsigned short halves[2];
    int whole[2];
    long long wide;
    unsigned char byte;
    signed char signed_byte;
};

template <class One, class Two, class Four> __host__ __device__ void classes(Row &row, int at, double x) {
    float single = static_cast<float>(x);
    unsigned char *to = row.by_class + 4 * at;
    to[0] = One(x).__x, to[1] = One(single).__x;
    to[2] = One(__half(single)).__x, to[3] = One(__nv_bfloat16(single)).__x;
    row.of_int[at] = One(static_cast<int>(single > 1e6f || single < -1e6f || single != single ? 7 : single)).__x;
    Two two(float2{single, -single}), other(double2{-x, x});
    row.pairs[2 * at] = two.__x, row.pairs[2 * at + 1] = other.__x;
    Four four(float4{single, 1, -2, -single});
    row.fours[2 * at] = four.__x;
    // Through their bits, as programs pass them on.
    __half2_raw bits = __half2(__half(single), __half(3.0f));
    row.fours[2 * at + 1] = Four(__half2(bits), __half2(__half(-4.0f), __half(single))).__x;
    __nv_bfloat162_raw others = __nv_bfloat162(__nv_bfloat16(single), __nv_bfloat16(-single));
    row.others[at] = Two(__nv_bfloat162(others)).__x;
    row.others[2 + at] = __nv_cvt_bfloat16raw2_to_fp8x2(others, __NV_SATFINITE, at ? __NV_E5M2 : __NV_E4M3);
    One one;
    one.__x = static_cast<unsigned char>(__double_as_longlong(x));
    row.back[at] = float(one), row.whole[at] = int(one);
    if (at == 0) row.wide = static_cast<long long>(one);
    if (at == 1) row.byte = static_cast<unsigned char>(one), row.signed_byte = static_cast<signed char>(one);
    two.__x = static_cast<unsigned short>(__double_as_longlong(x));
    float2 both(two);
    row.pair_back[2 * at] = both.x, row.pair_back[2 * at + 1] = both.y;
    if (at == 0) {
        four.__x = static_cast<unsigned int>(__double_as_longlong(x));
        float4 all(four);
        row.four_back[0] = all.x, row.four_back[1] = all.y, row.four_back[2] = all.z, row.four_back[3] = all.w;
    }
}

__host__ __device__ void convert(Row &row, double x) {
    float single = static_cast<float>(x);
    __half_raw half = __half(single);
    __nv_bfloat16_raw other = __nv_bfloat16(single);
    const __nv_fp8_interpretation_t kinds[] = {__NV_E4M3, __NV_E5M2};
    const __nv_saturation_t modes[] = {__NV_NOSAT, __NV_SATFINITE};
    for (int i = 0; i < 4; i++) {
        row.of_double[i] = __nv_cvt_double_to_fp8(x, modes[i % 2], kinds[i / 2]);
        row.of_float[i] = __nv_cvt_float_to_fp8(single, modes[i % 2], kinds[i / 2]);
        row.of_half[i] = __nv_cvt_halfraw_to_fp8(half, modes[i % 2], kinds[i / 2]);
        row.of_bfloat16[i] = __nv_cvt_bfloat16raw_to_fp8(other, modes[i % 2], kinds[i / 2]);
    }
    for (int i = 0; i < 2; i++)
        row.halves[i] = __nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(__double_as_longlong(x)), kinds[i]).x;
    classes<__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3>(row, 0, x);
    classes<__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2>(row, 1, x);
}

__global__ void convert_all(Row *rows, const double *words, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) convert(rows[i], words[i]);
}

static const int COUNT = 124;
#define ONE(name) name##2(a), name##4(a),
#define TWO(name) name##2(a, b), name##4(a, b),
#define COMPARED(name) TWO(__vcmp##name) TWO(__vset##name)
// Of words and of halfwords; the third is made of both.
#define EXTREMES(name, wide, type)                                                                                     \
    static_cast<unsigned int>(__vi##name##3_##wide##32(type(a), type(b), type(a ^ b))),                                \
        __vi##name##3_##wide##16x2(a, b, a ^ b),                                                                       \
        static_cast<unsigned int>(__viadd##name##_##wide##32(type(a), type(b), type(a ^ b))),                          \
        __viadd##name##_##wide##16x2(a, b, a ^ b),                                                                     \
        (word = static_cast<unsigned int>(__vib##name##_##wide##32(type(a), type(b), &first)), word ^ 4 * first),      \
        (word = __vib##name##_##wide##16x2(a, b, &high, &low), word ^ (4 * low + 0x40000 * high)),
#define AT_LEAST_0(name)                                                                                               \
    static_cast<unsigned int>(__vi##name##_s32_relu(int(a), int(b))), __vi##name##_s16x2_relu(a, b),                   \
        static_cast<unsigned int>(__vi##name##3_s32_relu(int(a), int(b), int(a ^ b))),                                 \
        __vi##name##3_s16x2_relu(a, b, a ^ b),                                                                         \
        static_cast<unsigned int>(__viadd##name##_s32_relu(int(a), int(b), int(a ^ b))),                               \
        __viadd##name##_s16x2_relu(a, b, a ^ b),
__host__ __device__ void calculate(unsigned int *to, unsigned int a, unsigned int b) {
    bool first, high, low;
    unsigned int word;
    const unsigned int results[] = {
        ONE(__vabs) ONE(__vabsss) ONE(__vneg) ONE(__vnegss)
        TWO(__vadd) TWO(__vaddss) TWO(__vaddus) TWO(__vsub) TWO(__vsubss) TWO(__vsubus)
        TWO(__vavgs) TWO(__vavgu) TWO(__vhaddu) TWO(__vabsdiffs) TWO(__vabsdiffu)
        TWO(__vmaxs) TWO(__vmaxu) TWO(__vmins) TWO(__vminu) TWO(__vsads) TWO(__vsadu)
        COMPARED(eq) COMPARED(ne) COMPARED(ges) COMPARED(geu) COMPARED(gts) COMPARED(gtu)
        COMPARED(les) COMPARED(leu) COMPARED(lts) COMPARED(ltu)
        static_cast<unsigned int>(__dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(a))),
        __dp4a(a, b, a),
        static_cast<unsigned int>(__dp2a_lo(static_cast<int>(a), static_cast<int>(b), static_cast<int>(a))),
        __dp2a_lo(a, b, a),
        static_cast<unsigned int>(__dp2a_hi(static_cast<int>(a), static_cast<int>(b), static_cast<int>(a))),
        __dp2a_hi(a, b, a),
        EXTREMES(max, s, int) EXTREMES(min, s, int) EXTREMES(max, u, unsigned) EXTREMES(min, u, unsigned)
        AT_LEAST_0(max) AT_LEAST_0(min)};
    static_assert(sizeof results == COUNT * 4, "as many as the test knows");
    memcpy(to, results, sizeof results);
}
__global__ void calculate_all(unsigned int *to, const unsigned int *words, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) calculate(to + COUNT * i, words[2 * i], words[2 * i + 1]);
}

int main(int, char **arguments) {
    bool floats = arguments[1][0] == 'f';
    FILE *from = fopen(arguments[2], "rb"), *to = fopen(arguments[3], "wb");
    std::vector<double> words(1 << 16);
    int count = static_cast<int>(fread(words.data(), 8, words.size(), from));
    size_t bytes = count * (floats ? sizeof(Row) : COUNT * 4);
    std::vector<char> host(bytes), device(bytes);
    void *memory, *input;
    cudaMalloc(&memory, bytes);
    cudaMemset(memory, 0, bytes);
    cudaMalloc(&input, 8 * count);
    cudaMemcpy(input, words.data(), 8 * count, cudaMemcpyHostToDevice);
    int blocks = (count + 127) / 128;
    if (floats)
        convert_all<<<blocks, 128>>>(static_cast<Row *>(memory), static_cast<double *>(input), count);
    else
        calculate_all<<<blocks, 128>>>(static_cast<unsigned int *>(memory), static_cast<unsigned int *>(input), count);
    cudaError_t status = cudaMemcpy(device.data(), memory, bytes, cudaMemcpyDeviceToHost);
    std::vector<unsigned int> pairs(2 * count);
    memcpy(pairs.data(), words.data(), 8 * count);
    for (int i = 0; i < count; i++) {
        if (floats)
            convert(reinterpret_cast<Row *>(host.data())[i], words[i]);
        else
            calculate(reinterpret_cast<unsigned int *>(host.data()) + COUNT * i, pairs[2 * i], pairs[2 * i + 1]);
    }
    fwrite(device.data(), 1, bytes, to), fwrite(host.data(), 1, bytes, to);
    fclose(from), fclose(to);
    return status;
}
