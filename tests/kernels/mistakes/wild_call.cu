typedef int (*Operation)(int);
__device__ __noinline__ int negated(int x) { return -x; }
__device__ Operation known = negated;

extern "C" __global__ void wild_call(const unsigned long long *addresses, int *out) {
    int i = threadIdx.x;
    Operation operation = addresses[i] ? (Operation)addresses[i] : known;
    out[i] = operation(i); // HERE
}
