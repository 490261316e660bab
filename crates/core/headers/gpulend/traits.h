// The part of <type_traits>, <utility> and <limits> that kernels use.
#pragma once

namespace std {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::max_align_t;
using ::nullptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;

template <class T, T given> struct integral_constant {
    static constexpr T value = given;
    typedef T value_type;
    typedef integral_constant type;
    __host__ __device__ constexpr operator T() const noexcept { return value; }
    __host__ __device__ constexpr T operator()() const noexcept { return value; }
};
template <bool given> using bool_constant = integral_constant<bool, given>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool wanted, class T = void> using enable_if_t = typename enable_if<wanted, T>::type;
template <bool, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool which, class T, class F> using conditional_t = typename conditional<which, T, F>::type;
template <class...> using void_t = void;

template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T &> { typedef T type; };
template <class T> struct remove_reference<T &&> { typedef T type; };
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_volatile { typedef T type; };
template <class T> struct remove_volatile<volatile T> { typedef T type; };
template <class T> struct remove_cv { typedef typename remove_const<typename remove_volatile<T>::type>::type type; };
template <class T> struct remove_pointer { typedef T type; };
template <class T> struct remove_pointer<T *> { typedef T type; };
template <class T> struct remove_extent { typedef T type; };
template <class T, size_t n> struct remove_extent<T[n]> { typedef T type; };
template <class T> struct remove_extent<T[]> { typedef T type; };
template <class T> struct add_const { typedef const T type; };
template <class T> struct add_pointer { typedef typename remove_reference<T>::type *type; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_volatile_t = typename remove_volatile<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> using add_const_t = typename add_const<T>::type;
template <class T> using add_pointer_t = typename add_pointer<T>::type;
template <class T> struct decay {
    typedef remove_reference_t<T> plain;
    typedef conditional_t<__is_array(plain), remove_extent_t<plain> *, remove_cv_t<plain>> type;
};
template <class T> using decay_t = typename decay<T>::type;

template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_pointer : bool_constant<__is_pointer(T)> {};
template <class T> struct is_reference : bool_constant<__is_reference(T)> {};
template <class T> struct is_void : bool_constant<__is_void(T)> {};
template <class T> struct is_array : bool_constant<__is_array(T)> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_integral : bool_constant<__is_integral(T)> {};
template <class T> struct is_floating_point : bool_constant<__is_floating_point(T)> {};
template <class T> struct is_arithmetic : bool_constant<__is_arithmetic(T)> {};
template <class T> struct is_signed : bool_constant<__is_signed(T)> {};
template <class T> struct is_unsigned : bool_constant<__is_unsigned(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class B, class D> struct is_base_of : bool_constant<__is_base_of(B, D)> {};
template <class A, class B> struct is_convertible : bool_constant<__is_convertible_to(A, B)> {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class T> inline constexpr bool is_const_v = is_const<T>::value;
template <class T> inline constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> inline constexpr bool is_reference_v = is_reference<T>::value;
template <class T> inline constexpr bool is_void_v = is_void<T>::value;
template <class T> inline constexpr bool is_array_v = is_array<T>::value;
template <class T> inline constexpr bool is_class_v = is_class<T>::value;
template <class T> inline constexpr bool is_enum_v = is_enum<T>::value;
template <class T> inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T> inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T> inline constexpr bool is_trivially_copyable_v = is_trivially_copyable<T>::value;
template <class B, class D> inline constexpr bool is_base_of_v = is_base_of<B, D>::value;
template <class A, class B> inline constexpr bool is_convertible_v = is_convertible<A, B>::value;

template <class T> struct make_unsigned { typedef T type; };
template <> struct make_unsigned<char> { typedef unsigned char type; };
template <> struct make_unsigned<signed char> { typedef unsigned char type; };
template <> struct make_unsigned<short> { typedef unsigned short type; };
template <> struct make_unsigned<int> { typedef unsigned type; };
template <> struct make_unsigned<long> { typedef unsigned long type; };
template <> struct make_unsigned<long long> { typedef unsigned long long type; };
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <class T> struct make_signed { typedef T type; };
template <> struct make_signed<char> { typedef signed char type; };
template <> struct make_signed<unsigned char> { typedef signed char type; };
template <> struct make_signed<unsigned short> { typedef short type; };
template <> struct make_signed<unsigned> { typedef int type; };
template <> struct make_signed<unsigned long> { typedef long type; };
template <> struct make_signed<unsigned long long> { typedef long long type; };
template <class T> using make_signed_t = typename make_signed<T>::type;

template <class T> T &&declval() noexcept;
template <class T> __GPULEND_METHOD constexpr remove_reference_t<T> &&move(T &&value) noexcept {
    return static_cast<remove_reference_t<T> &&>(value);
}
template <class T> __GPULEND_METHOD constexpr T &&forward(remove_reference_t<T> &value) noexcept {
    return static_cast<T &&>(value);
}
template <class T> __GPULEND_METHOD constexpr T &&forward(remove_reference_t<T> &&value) noexcept {
    return static_cast<T &&>(value);
}
template <class T> __GPULEND_METHOD constexpr void swap(T &a, T &b) {
    T kept = std::move(a);
    a = std::move(b);
    b = std::move(kept);
}
template <class T, class U = T> __GPULEND_METHOD constexpr T exchange(T &place, U &&value) {
    T kept = std::move(place);
    place = std::forward<U>(value);
    return kept;
}
template <class T> __GPULEND_METHOD constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> __GPULEND_METHOD constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T> __GPULEND_METHOD constexpr const T &clamp(const T &value, const T &low, const T &high) {
    return value < low ? low : high < value ? high : value;
}
template <class A, class B> struct pair {
    typedef A first_type;
    typedef B second_type;
    A first;
    B second;
};
template <class A, class B> __GPULEND_METHOD constexpr pair<decay_t<A>, decay_t<B>> make_pair(A &&a, B &&b) {
    return {std::forward<A>(a), std::forward<B>(b)};
}

template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define __GPULEND_LIMITS(type, low, high, size)                                                                        \
    template <> struct numeric_limits<type> {                                                                          \
        static constexpr bool is_specialized = true, is_integer = true, is_exact = true;                               \
        static constexpr bool is_signed = std::is_signed_v<type>, has_infinity = false;                              \
        static constexpr int digits = size, digits10 = size * 30103 / 100000, radix = 2;                               \
        __GPULEND_METHOD static constexpr type min() noexcept { return low; }                                          \
        __GPULEND_METHOD static constexpr type lowest() noexcept { return low; }                                       \
        __GPULEND_METHOD static constexpr type max() noexcept { return high; }                                         \
        __GPULEND_METHOD static constexpr type epsilon() noexcept { return 0; }                                        \
    };
__GPULEND_LIMITS(bool, false, true, 1)
__GPULEND_LIMITS(char, CHAR_MIN, CHAR_MAX, 7)
__GPULEND_LIMITS(signed char, SCHAR_MIN, SCHAR_MAX, 7)
__GPULEND_LIMITS(unsigned char, 0, UCHAR_MAX, 8)
__GPULEND_LIMITS(short, SHRT_MIN, SHRT_MAX, 15)
__GPULEND_LIMITS(unsigned short, 0, USHRT_MAX, 16)
__GPULEND_LIMITS(int, INT_MIN, INT_MAX, 31)
__GPULEND_LIMITS(unsigned, 0, UINT_MAX, 32)
__GPULEND_LIMITS(long, LONG_MIN, LONG_MAX, 63)
__GPULEND_LIMITS(unsigned long, 0, ULONG_MAX, 64)
__GPULEND_LIMITS(long long, LLONG_MIN, LLONG_MAX, 63)
__GPULEND_LIMITS(unsigned long long, 0, ULLONG_MAX, 64)
#undef __GPULEND_LIMITS
#define __GPULEND_LIMITS(type, name, huge, quiet)                                                                      \
    template <> struct numeric_limits<type> {                                                                          \
        static constexpr bool is_specialized = true, is_integer = false, is_exact = false;                             \
        static constexpr bool is_signed = true, has_infinity = true, has_quiet_NaN = true, is_iec559 = true;           \
        static constexpr int digits = name##_MANT_DIG, digits10 = name##_DIG, radix = 2;                               \
        static constexpr int min_exponent = name##_MIN_EXP, max_exponent = name##_MAX_EXP;                             \
        __GPULEND_METHOD static constexpr type min() noexcept { return name##_MIN; }                                   \
        __GPULEND_METHOD static constexpr type lowest() noexcept { return -name##_MAX; }                               \
        __GPULEND_METHOD static constexpr type max() noexcept { return name##_MAX; }                                   \
        __GPULEND_METHOD static constexpr type epsilon() noexcept { return name##_EPSILON; }                           \
        __GPULEND_METHOD static constexpr type denorm_min() noexcept { return name##_TRUE_MIN; }                       \
        __GPULEND_METHOD static constexpr type infinity() noexcept { return huge; }                                    \
        __GPULEND_METHOD static constexpr type quiet_NaN() noexcept { return quiet; }                                  \
    };
__GPULEND_LIMITS(float, FLT, __builtin_huge_valf(), __builtin_nanf(""))
__GPULEND_LIMITS(double, DBL, __builtin_huge_val(), __builtin_nan(""))
#undef __GPULEND_LIMITS
} // namespace std
