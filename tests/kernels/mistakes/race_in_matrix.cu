extern "C" __global__ void race_in_matrix(int *out) {
    __shared__ __align__(16) unsigned rows[32][4];
    for (int i = 0; i < 4; i++) rows[threadIdx.x][i] = threadIdx.x;
    unsigned row = (unsigned)__cvta_generic_to_shared(rows[threadIdx.x]), found;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(found) : "r"(row) : "memory"); // HERE
    out[threadIdx.x] = (int)found;
}
