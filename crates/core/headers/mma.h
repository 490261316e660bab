// nvcuda::wmma: products of matrices by a whole warp. Each lane has some elements of each matrix, spread as `mma.sync` wants
// them; products that are 8 rows high are calculated transposed, because that instruction has 16 for halves.
#pragma once
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

enum layout_t { mem_row_major, mem_col_major };
struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};

struct __gpulend_place { int row, column; };

// The place of a lane's element in a left matrix of 16 columns, a right one of 16 rows, and a sum, for halves.
struct __gpulend_halves {
    __GPULEND_DEVICE_METHOD static __gpulend_place __in_left(int index, int lane) {
        return {index / 8 * 16 + index / 2 % 2 * 8 + lane / 4, index / 4 % 2 * 8 + lane % 4 * 2 + index % 2};
    }
    __GPULEND_DEVICE_METHOD static __gpulend_place __in_right(int index, int lane) {
        return {index / 2 % 2 * 8 + lane % 4 * 2 + index % 2, index / 4 * 8 + lane / 4};
    }
    template <int columns> __GPULEND_DEVICE_METHOD static __gpulend_place __in_sum(int index, int lane) {
        int block = index / 4;
        return {block / (columns / 8) * 16 + index / 2 % 2 * 8 + lane / 4,
                block % (columns / 8) * 8 + lane % 4 * 2 + index % 2};
    }
};
// The same for bytes.
struct __gpulend_bytes {
    __GPULEND_DEVICE_METHOD static __gpulend_place __in_left(int index, int lane) {
        return {index / 4 * 8 + lane / 4, lane % 4 * 4 + index % 4};
    }
    __GPULEND_DEVICE_METHOD static __gpulend_place __in_right(int index, int lane) {
        return {lane % 4 * 4 + index % 4, index / 4 * 8 + lane / 4};
    }
    template <int columns> __GPULEND_DEVICE_METHOD static __gpulend_place __in_sum(int index, int lane) {
        int block = index / 2;
        return {block / (columns / 8) * 8 + lane / 4, block % (columns / 8) * 8 + lane % 4 * 2 + index % 2};
    }
};

template <class T> struct __gpulend_spread {
    static_assert(sizeof(T) == 0, "fragments are of half, float, int, signed char and unsigned char");
};
template <> struct __gpulend_spread<__half> : __gpulend_halves {};
template <> struct __gpulend_spread<float> : __gpulend_halves {};
template <> struct __gpulend_spread<int> : __gpulend_bytes {};
template <> struct __gpulend_spread<signed char> : __gpulend_bytes {};
template <> struct __gpulend_spread<unsigned char> : __gpulend_bytes {};

template <class T, int count> struct __gpulend_elements {
    enum { num_elements = count, num_storage_elements = count };
    typedef T element_type;
    typedef T storage_element_type;
    T x[count];
};

template <class Use, int m, int n, int k, class T, class Layout = void> class fragment;
#define __GPULEND_FRAGMENT(use, count, inside)                                                                         \
    template <int m, int n, int k, class T, class Layout>                                                              \
    class fragment<use, m, n, k, T, Layout> : public __gpulend_elements<T, count> {                                    \
        static_assert((m == 16 && n == 16 && k == 16) || (m == 32 && n == 8 && k == 16) ||                             \
                          (m == 8 && n == 32 && k == 16),                                                              \
                      "shapes are 16x16x16, 32x8x16 and 8x32x16");                                                     \
                                                                                                                       \
      public:                                                                                                          \
        __GPULEND_DEVICE_METHOD static __gpulend_place __place(int index) {                                            \
            int lane = static_cast<int>(__gpulend_lane());                                                             \
            __gpulend_place place = inside;                                                                            \
            return m == 8 ? __gpulend_place{place.column, place.row} : place;                                          \
        }                                                                                                              \
    };
__GPULEND_FRAGMENT(matrix_a, m * k / 32,
                   m == 8 ? __gpulend_spread<T>::__in_right(index, lane) : __gpulend_spread<T>::__in_left(index, lane))
__GPULEND_FRAGMENT(matrix_b, n * k / 32,
                   m == 8 ? __gpulend_spread<T>::__in_left(index, lane) : __gpulend_spread<T>::__in_right(index, lane))
__GPULEND_FRAGMENT(accumulator, m * n / 32, __gpulend_spread<T>::template __in_sum<m == 8 ? m : n>(index, lane))
#undef __GPULEND_FRAGMENT

template <class Fragment> __GPULEND_DEVICE_METHOD unsigned int __gpulend_offset(int index, unsigned int ldm, bool rows) {
    __gpulend_place place = Fragment::__place(index);
    unsigned int row = static_cast<unsigned int>(place.row), column = static_cast<unsigned int>(place.column);
    return rows ? row * ldm + column : column * ldm + row;
}
template <class Use, int m, int n, int k, class T, class Layout>
__GPULEND_DEVICE_METHOD void load_matrix_sync(fragment<Use, m, n, k, T, Layout> &to, const T *from, unsigned int ldm) {
    typedef fragment<Use, m, n, k, T, Layout> Fragment;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Fragment::num_elements; i++)
        to.x[i] = from[__gpulend_offset<Fragment>(i, ldm, std::is_same_v<Layout, row_major>)];
}
template <int m, int n, int k, class T>
__GPULEND_DEVICE_METHOD void load_matrix_sync(fragment<accumulator, m, n, k, T> &to, const T *from, unsigned int ldm,
                                              layout_t layout) {
    typedef fragment<accumulator, m, n, k, T> Fragment;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Fragment::num_elements; i++)
        to.x[i] = from[__gpulend_offset<Fragment>(i, ldm, layout == mem_row_major)];
}
template <int m, int n, int k, class T>
__GPULEND_DEVICE_METHOD void store_matrix_sync(T *to, const fragment<accumulator, m, n, k, T> &from, unsigned int ldm,
                                               layout_t layout) {
    typedef fragment<accumulator, m, n, k, T> Fragment;
#pragma unroll
    for (int i = 0; i < Fragment::num_elements; i++)
        to[__gpulend_offset<Fragment>(i, ldm, layout == mem_row_major)] = from.x[i];
    __syncwarp();
}
template <class Use, int m, int n, int k, class T, class Layout>
__GPULEND_DEVICE_METHOD void fill_fragment(fragment<Use, m, n, k, T, Layout> &to,
                                           const typename fragment<Use, m, n, k, T, Layout>::element_type &value) {
#pragma unroll
    for (int i = 0; i < fragment<Use, m, n, k, T, Layout>::num_elements; i++) to.x[i] = value;
}

template <class T> __GPULEND_DEVICE_METHOD unsigned int __gpulend_word(const T *from) {
    unsigned int word;
    __builtin_memcpy(&word, from, sizeof word);
    return word;
}
// The sum of 16 by 8 elements, onto which the instruction adds a product with 8 columns on the left.
__GPULEND_DEVICE void __gpulend_multiply(float *sum, const __half *left, const __half *right) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(__gpulend_word(left)), "r"(__gpulend_word(left + 2)), "r"(__gpulend_word(right)));
}
__GPULEND_DEVICE void __gpulend_multiply(__half *sum, const __half *left, const __half *right) {
    unsigned int low = __gpulend_word(sum), high = __gpulend_word(sum + 2);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(low), "+r"(high)
                 : "r"(__gpulend_word(left)), "r"(__gpulend_word(left + 2)), "r"(__gpulend_word(right)));
    __builtin_memcpy(sum, &low, sizeof low);
    __builtin_memcpy(sum + 2, &high, sizeof high);
}
template <int rows, int columns, class T>
__GPULEND_DEVICE_METHOD void __gpulend_product(T *sum, const __half *left, const __half *right, bool) {
#pragma unroll
    for (int block = 0; block < rows / 16 * (columns / 8); block++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            __gpulend_multiply(sum + 4 * block, left + 8 * (block / (columns / 8)) + 4 * half,
                               right + 4 * (block % (columns / 8)) + 2 * half);
}
#define __GPULEND_PRODUCT(type, letters)                                                                               \
    template <int rows, int columns>                                                                                   \
    __GPULEND_DEVICE_METHOD void __gpulend_product(int *sum, const type *left, const type *right, bool saturate) {     \
        _Pragma("unroll") for (int block = 0; block < rows / 8 * (columns / 8); block++) {                             \
            unsigned int a = __gpulend_word(left + 4 * (block / (columns / 8)));                                       \
            unsigned int b = __gpulend_word(right + 4 * (block % (columns / 8)));                                      \
            int *at = sum + 2 * block;                                                                                 \
            if (saturate)                                                                                              \
                asm volatile("mma.sync.aligned.m8n8k16.row.col.satfinite.s32." letters                                 \
                             ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};"                                                    \
                             : "+r"(at[0]), "+r"(at[1])                                                                \
                             : "r"(a), "r"(b));                                                                        \
            else                                                                                                       \
                asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." letters ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};"    \
                             : "+r"(at[0]), "+r"(at[1])                                                                \
                             : "r"(a), "r"(b));                                                                        \
        }                                                                                                              \
    }
__GPULEND_PRODUCT(signed char, "s8.s8")
__GPULEND_PRODUCT(unsigned char, "u8.u8")
#undef __GPULEND_PRODUCT

template <int m, int n, int k, class D, class T, class LayoutA, class LayoutB, class C>
__GPULEND_DEVICE_METHOD void mma_sync(fragment<accumulator, m, n, k, D> &to,
                                      const fragment<matrix_a, m, n, k, T, LayoutA> &a,
                                      const fragment<matrix_b, m, n, k, T, LayoutB> &b,
                                      const fragment<accumulator, m, n, k, C> &sum, bool satf = false) {
    constexpr int count = fragment<accumulator, m, n, k, D>::num_elements;
    D made[count];
#pragma unroll
    for (int i = 0; i < count; i++) made[i] = static_cast<D>(sum.x[i]);
    if (m == 8)
        __gpulend_product<n, m>(made, b.x, a.x, satf);
    else
        __gpulend_product<m, n>(made, a.x, b.x, satf);
#pragma unroll
    for (int i = 0; i < count; i++) to.x[i] = made[i];
}

} // namespace wmma
} // namespace nvcuda
