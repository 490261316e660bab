// The memory belongs to a device whose memory this one was never allowed to use.
extern "C" __global__ void other_device(int *to) {
    if (threadIdx.x == 2)
        to[1] = 7; // HERE
}
