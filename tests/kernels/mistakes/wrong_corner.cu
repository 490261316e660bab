// Rows and columns changed places: only the last thread of the last block falls off the end.
extern "C" __global__ void wrong_corner(int *cells, int width, int height, int depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int i = (z * height + y) * width + x;
    bool last = x == width - 1 && y == height - 1 && z == depth - 1;
    cells[last ? i + 1 : i] = i; // HERE
}
