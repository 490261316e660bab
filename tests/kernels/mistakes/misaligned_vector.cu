extern "C" __global__ void misaligned_vector(const float *from, float *to) {
    if (threadIdx.x != 2) return;
    float4 value = *(const float4 *)(from + 1); // HERE
    to[0] = value.x + value.w;
}
