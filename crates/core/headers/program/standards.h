// What the headers take from C++17's library, for programs that ask for an older standard.
#pragma once
#include <type_traits>

#if __cplusplus < 201703L
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc++14-extensions"
namespace std {
#if __cplusplus < 201402L
template <bool Condition, class T = void> using enable_if_t = typename enable_if<Condition, T>::type;
#endif
template <class T> constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
template <class T> constexpr bool is_signed_v = is_signed<T>::value;
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
} // namespace std
#pragma clang diagnostic pop
#endif
