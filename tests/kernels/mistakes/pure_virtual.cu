// A constructor calls what its class does not define yet.
struct Base {
    int value;
    __device__ virtual int get() const = 0;
    __device__ __noinline__ int got() const { return get(); } // HERE
    __device__ Base() { value = got(); }
};
struct Derived : Base {
    __device__ int get() const override { return 7; }
};

extern "C" __global__ void pure_virtual(int *out) {
    Derived one;
    if (threadIdx.x == 0) out[0] = one.get() + one.value;
}
