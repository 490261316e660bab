extern "C" __global__ void endless_loop(int *flag) {
    while (atomicAdd(flag, 0) == 0) { // HERE
    }
}
