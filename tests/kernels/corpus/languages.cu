// What C++ offers: templates, classes, lambdas, calls, switches.

template <typename T, int Factor> __global__ void multiply_all(T *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * T(Factor);
}

// Found by their mangled names.
template __global__ void multiply_all<int, 3>(int *, int);
template __global__ void multiply_all<double, -2>(double *, int);

template <typename T> __device__ T clamp_to(T value, T low, T high) { return value < low ? low : value > high ? high : value; }

extern "C" __global__ void clamp_ints(int *values, int low, int high, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = clamp_to(values[i], low, high);
}

// A fraction in lowest terms.
class Fraction {
  public:
    __device__ Fraction(int above, int below) : above_(above), below_(below) { shorten(); }
    __device__ Fraction operator+(Fraction other) const {
        return Fraction(above_ * other.below_ + other.above_ * below_, below_ * other.below_);
    }
    __device__ Fraction &operator+=(Fraction other) { return *this = *this + other; }
    __device__ bool operator<(Fraction other) const { return above_ * other.below_ < other.above_ * below_; }
    __device__ int above() const { return above_; }
    __device__ int below() const { return below_; }

  private:
    __device__ void shorten() {
        int a = abs(above_), b = below_;
        while (b != 0) {
            int rest = a % b;
            a = b;
            b = rest;
        }
        above_ /= a;
        below_ /= a;
    }
    int above_, below_;
};

extern "C" __global__ void add_fractions(const int2 *a, const int2 *b, int2 *sums, int *less, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Fraction x(a[i].x, a[i].y), y(b[i].x, b[i].y);
    less[i] = x < y;
    x += y;
    sums[i] = make_int2(x.above(), x.below());
}

template <typename Function> __device__ int sum_of(int n, Function function) {
    int sum = 0;
    for (int k = 0; k < n; ++k) sum += function(k);
    return sum;
}

extern "C" __global__ void lambdas(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    auto square = [](int k) { return k * k; };
    out[i] = sum_of(i, square) + sum_of(3, [&](int k) { return i * k; });
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void fibonaccis(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fibonacci(i);
}

// A little machine: one step for each byte of a program.
extern "C" __global__ void run_programs(const unsigned char *programs, int length, int *results, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int value = i;
    for (int k = 0; k < length; ++k) {
        switch (programs[i * length + k] % 20) {
        case 0: value += 1; break;
        case 1: value -= 3; break;
        case 2: value *= 5; break;
        case 3: value ^= 0x55; break;
        case 4: value = ~value; break;
        case 5: value <<= 1; break;
        case 6: value >>= 2; break;
        case 7: value |= 0x1001; break;
        case 8: value &= 0xffffff; break;
        case 9: value = -value; break;
        case 10: value += k; break;
        case 11: value = value / 7; break;
        case 12: value = value % 1001; break;
        case 13: value += value << 3; break;
        case 14: value = value > 100 ? 100 : value; // and on
        case 15: value += 17; break;
        case 16: value ^= value >> 5; break;
        case 17: k += 1; break;
        default: value -= i; break;
        }
    }
    results[i] = value;
}

__device__ __noinline__ void divide(int number, int by, int *quotient, int *rest) {
    *quotient = number / by;
    *rest = number % by;
}

// Results through pointers to a thread's own variables.
extern "C" __global__ void digits(const int *numbers, int *sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int left = numbers[i], sum = 0;
    while (left > 0) {
        int digit;
        divide(left, 10, &left, &digit);
        sum += digit;
    }
    sums[i] = sum;
}
