// Fractals, bodies, chance, primes.

class Complex {
  public:
    __device__ Complex(double real, double imaginary) : real_(real), imaginary_(imaginary) {}
    __device__ Complex operator*(const Complex &other) const {
        return Complex(real_ * other.real_ - imaginary_ * other.imaginary_, real_ * other.imaginary_ + imaginary_ * other.real_);
    }
    __device__ Complex operator+(const Complex &other) const {
        return Complex(real_ + other.real_, imaginary_ + other.imaginary_);
    }
    __device__ double norm() const { return real_ * real_ + imaginary_ * imaginary_; }
    __device__ double real() const { return real_; }
    __device__ double imaginary() const { return imaginary_; }

  private:
    double real_, imaginary_;
};

__device__ int steps_to_escape(Complex z, Complex c, int most) {
    int steps = 0;
    while (steps < most && z.norm() <= 4.0) {
        z = z * z + c;
        ++steps;
    }
    return steps;
}

extern "C" __global__ void mandelbrot(int *steps, int width, int height, int most) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    Complex c(-2.0 + 2.5 * x / width, -1.25 + 2.5 * y / height);
    steps[y * width + x] = steps_to_escape(Complex(0.0, 0.0), c, most);
}

extern "C" __global__ void julia(int *steps, int width, int height, int most, double real, double imaginary) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    Complex z(-1.5 + 3.0 * x / width, -1.5 + 3.0 * y / height);
    steps[y * width + x] = steps_to_escape(z, Complex(real, imaginary), most);
}

extern "C" __global__ void complex_multiply(const double2 *a, const double2 *b, double2 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Complex product = Complex(a[i].x, a[i].y) * Complex(b[i].x, b[i].y);
    out[i] = make_double2(product.real(), product.imaginary());
}

// The pull on each body by all: 64 threads, a tile of bodies at a time. A body without mass pulls nobody.
extern "C" __global__ void n_body(const float4 *bodies, float4 *pull, int n) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 here = i < n ? bodies[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float x = 0.0f, y = 0.0f, z = 0.0f;
    for (int start = 0; start < n; start += 64) {
        int other = start + threadIdx.x;
        tile[threadIdx.x] = other < n ? bodies[other] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncthreads();
        for (int k = 0; k < 64; ++k) {
            float dx = tile[k].x - here.x, dy = tile[k].y - here.y, dz = tile[k].z - here.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float strength = tile[k].w * inverse * inverse * inverse;
            x += dx * strength;
            y += dy * strength;
            z += dz * strength;
        }
        __syncthreads();
    }
    if (i < n) pull[i] = make_float4(x, y, z, 0.0f);
}

__device__ unsigned int xorshift(unsigned int &state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

// Points of 16 bits each way, so that the circle's sums stay whole numbers.
extern "C" __global__ void monte_carlo_pi(unsigned long long *inside, int each) {
    unsigned int state = (blockIdx.x * blockDim.x + threadIdx.x + 1) * 2654435761u;
    unsigned int hits = 0;
    for (int i = 0; i < each; ++i) {
        unsigned int random = xorshift(state);
        unsigned int x = random & 0xffff, y = random >> 16;
        unsigned long long square = (unsigned long long)x * x + (unsigned long long)y * y;
        if (square < 0x100000000ull) ++hits;
    }
    atomicAdd(inside, (unsigned long long)hits);
}

// Multiples of each prime up to the root lose their bit; many threads may take the same one.
extern "C" __global__ void sieve(unsigned int *bits, int n) {
    int number = blockIdx.x * blockDim.x + threadIdx.x + 2;
    for (long long multiple = (long long)number * number; multiple < n; multiple += number)
        atomicAnd(&bits[multiple / 32], ~(1u << (multiple % 32)));
}

extern "C" __global__ void collatz(const unsigned long long *starts, int *steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long number = starts[i];
    int count = 0;
    for (; number != 1; ++count) number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    steps[i] = count;
}
