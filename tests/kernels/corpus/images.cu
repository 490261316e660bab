// Colours of three and four bytes to grey, with whole numbers.

extern "C" __global__ void grey_of_three(const uchar3 *colours, unsigned char *grey, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grey[i] = (unsigned char)((77 * colours[i].x + 150 * colours[i].y + 29 * colours[i].z) >> 8);
}

extern "C" __global__ void grey_of_four(const uchar4 *colours, uchar4 *grey, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 colour = colours[i];
    unsigned char level = (unsigned char)((77 * colour.x + 150 * colour.y + 29 * colour.z) >> 8);
    grey[i] = make_uchar4(level, level, level, colour.w);
}
