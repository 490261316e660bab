// Complex numbers for kernels that `gpulend.elementwise` and `gpulend.reduction` make, where the toolkit's thrust is not there:
// the two parts one after the other, as every library stores them.
#pragma once

namespace thrust {
template <class P> struct alignas(2 * sizeof(P)) complex {
    P x, y;
    complex() = default;
    __device__ complex(P real, P imaginary = P(0)) : x(real), y(imaginary) {}
    template <class Q> __device__ complex(const complex<Q> &other) : x(P(other.x)), y(P(other.y)) {}
    __device__ P real() const { return x; }
    __device__ P imag() const { return y; }
    __device__ complex &operator+=(const complex &b) { return *this = complex(x + b.x, y + b.y); }
    __device__ complex &operator-=(const complex &b) { return *this = complex(x - b.x, y - b.y); }
    __device__ complex &operator*=(const complex &b) { return *this = complex(x * b.x - y * b.y, x * b.y + y * b.x); }
    __device__ complex &operator/=(const complex &b) {
        // Scaled by the larger part, so that no square overflows.
        if (fabs(b.x) >= fabs(b.y)) {
            const P ratio = b.y / b.x, scale = b.x + b.y * ratio;
            return *this = complex((x + y * ratio) / scale, (y - x * ratio) / scale);
        }
        const P ratio = b.x / b.y, scale = b.x * ratio + b.y;
        return *this = complex((x * ratio + y) / scale, (y * ratio - x) / scale);
    }
    friend __device__ complex operator+(complex a, const complex &b) { return a += b; }
    friend __device__ complex operator-(complex a, const complex &b) { return a -= b; }
    friend __device__ complex operator*(complex a, const complex &b) { return a *= b; }
    friend __device__ complex operator/(complex a, const complex &b) { return a /= b; }
    friend __device__ complex operator-(const complex &a) { return complex(-a.x, -a.y); }
    friend __device__ bool operator==(const complex &a, const complex &b) { return a.x == b.x && a.y == b.y; }
    friend __device__ bool operator!=(const complex &a, const complex &b) { return !(a == b); }
    friend __device__ P real(const complex &a) { return a.x; }
    friend __device__ P imag(const complex &a) { return a.y; }
    friend __device__ P norm(const complex &a) { return a.x * a.x + a.y * a.y; }
    friend __device__ P abs(const complex &a) { return hypot(a.x, a.y); }
    friend __device__ P arg(const complex &a) { return atan2(a.y, a.x); }
    friend __device__ complex conj(const complex &a) { return complex(a.x, -a.y); }
    friend __device__ complex exp(const complex &a) {
        const P size = exp(a.x);
        return complex(size * cos(a.y), size * sin(a.y));
    }
};
} // namespace thrust

using thrust::complex;
