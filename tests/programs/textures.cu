// Arrays, textures and surfaces against the formulas of CUDA's guide, computed on the host.
#include <cmath>
#include <cstdio>
#include <vector>

static int failures = 0;
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) printf("line %d: %s\n", __LINE__, #condition), failures++;                                   \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

static const int W = 8, H = 4;
texture<float, 1, cudaReadModeElementType> line;
texture<uchar4, 2, cudaReadModeNormalizedFloat> pixels;

__global__ void sample(cudaTextureObject_t from, const float2 *at, float *to) {
    to[threadIdx.x] = tex2D<float>(from, at[threadIdx.x].x, at[threadIdx.x].y);
}
__global__ void fetch(cudaTextureObject_t from, int4 *to) { to[threadIdx.x] = tex1Dfetch<int4>(from, threadIdx.x); }
__global__ void by_reference(float *to) { to[threadIdx.x] = tex1Dfetch(line, threadIdx.x); }
__global__ void colours(float4 *to) { to[threadIdx.x] = tex2D(pixels, threadIdx.x, 0); }
__global__ void volume(cudaTextureObject_t from, float *to) {
    to[threadIdx.x] = tex3D<float>(from, threadIdx.x % 2 + 0.5f, threadIdx.x / 2 % 2 + 0.5f, threadIdx.x / 4 + 0.5f);
}
// The middle of each texel of each face, as CUDA's guide numbers faces and turns them: what a direction of any length finds.
__global__ void around(cudaTextureObject_t from, float *to, int size, int layer) {
    int face = blockIdx.x, column = threadIdx.x, row = threadIdx.y;
    float s = (2 * column + 1) / float(size) - 1, t = (2 * row + 1) / float(size) - 1, long_ = 3;
    float x[] = {1, -1, s, s, s, -s}, y[] = {-t, -t, 1, -1, -t, -t}, z[] = {-s, s, t, -t, 1, -1};
    to[(face * size + row) * size + column] =
        layer < 0 ? texCubemap<float>(from, long_ * x[face], long_ * y[face], long_ * z[face])
                  : texCubemapLayered<float>(from, x[face], y[face], z[face], layer);
}
__global__ void paint_faces(cudaSurfaceObject_t to) {
    int x = threadIdx.x * sizeof(float);
    surfCubemapwrite(surfCubemapread<float>(to, x, threadIdx.y, blockIdx.x) + 1000, to, x, threadIdx.y, blockIdx.x);
}
__global__ void paint(cudaSurfaceObject_t to) {
    float value;
    surf2Dread(&value, to, int(threadIdx.x * sizeof(float)), blockIdx.x);
    surf2Dwrite(value * 2, to, int(threadIdx.x * sizeof(float)), blockIdx.x);
}

static float texel(const std::vector<float> &image, int x, int y, int mode) {
    auto place = [mode](int at, int size) {
        if (at >= 0 && at < size) return at;
        if (mode == cudaAddressModeWrap) return (at % size + size) % size;
        if (mode == cudaAddressModeClamp) return at < 0 ? 0 : size - 1;
        if (mode == cudaAddressModeBorder) return -1;
        int back = (at % (2 * size) + 2 * size) % (2 * size);
        return back < size ? back : 2 * size - 1 - back;
    };
    int i = place(x, W), j = place(y, H);
    return i < 0 || j < 0 ? 0 : image[j * W + i];
}

static void sampling(cudaArray_t array, const std::vector<float> &image, int mode, int filter, int normalized) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = static_cast<cudaTextureAddressMode>(mode);
    how.filterMode = static_cast<cudaTextureFilterMode>(filter);
    how.normalizedCoords = normalized;
    cudaTextureObject_t object;
    OK(cudaCreateTextureObject(&object, &resource, &how, nullptr));
    std::vector<float2> at;
    for (int i = 0; i < 64; i++) at.push_back({-4.3f + i * 0.37f, -2.9f + i * 0.21f});
    std::vector<float2> passed = at;
    if (normalized)
        for (float2 &one : passed) one = {one.x / W, one.y / H};
    float2 *places;
    float *results;
    std::vector<float> found(64);
    OK(cudaMalloc(&places, 64 * sizeof(float2)));
    OK(cudaMalloc(&results, 64 * sizeof(float)));
    OK(cudaMemcpy(places, passed.data(), 64 * sizeof(float2), cudaMemcpyHostToDevice));
    sample<<<1, 64>>>(object, places, results);
    OK(cudaMemcpy(found.data(), results, 64 * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++) {
        float wanted, x = at[i].x, y = at[i].y;
        if (filter == cudaFilterModePoint) {
            wanted = texel(image, int(std::floor(x)), int(std::floor(y)), mode);
        } else {
            int left = int(std::floor(x - 0.5f)), top = int(std::floor(y - 0.5f));
            float a = x - 0.5f - left, b = y - 0.5f - top;
            wanted = (1 - a) * (1 - b) * texel(image, left, top, mode) + a * (1 - b) * texel(image, left + 1, top, mode)
                     + (1 - a) * b * texel(image, left, top + 1, mode) + a * b * texel(image, left + 1, top + 1, mode);
        }
        // The weights of hardware have eight bits, and the largest texel is 3100.
        float room = filter == cudaFilterModePoint ? 0 : 3100.0f / 128;
        if (!(std::fabs(found[i] - wanted) <= room))
            printf("mode %d filter %d at %g, %g: %g, wanted %g\n", mode, filter, x, y, found[i], wanted), failures++;
    }
    OK(cudaDestroyTextureObject(object));
    OK(cudaFree(places));
    OK(cudaFree(results));
}

static void cubes() {
    const int size = 4, cubes = 2, count = 6 * size * size;
    std::vector<float> values(cubes * count), seen(count);
    for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i);
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
    float *results;
    OK(cudaMalloc(&results, count * sizeof(float)));
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &floats, make_cudaExtent(size, size + 1, 6), cudaArrayCubemap) == cudaErrorInvalidValue);
    CHECK(cudaMalloc3DArray(&array, &floats, make_cudaExtent(size, size, 12), cudaArrayCubemap) == cudaErrorInvalidValue);
    for (bool layered : {false, true}) {
        cudaExtent extent = make_cudaExtent(size, size, layered ? 6 * cubes : 6);
        OK(cudaMalloc3DArray(&array, &floats, extent, cudaArrayCubemap | (layered ? cudaArrayLayered : 0)));
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr(values.data(), size * sizeof(float), size, size);
        copy.dstArray = array, copy.extent = extent, copy.kind = cudaMemcpyHostToDevice;
        OK(cudaMemcpy3D(&copy));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
        for (bool mixed : {false, true}) {
            cudaTextureDesc how = {};
            how.filterMode = mixed ? cudaFilterModeLinear : cudaFilterModePoint, how.normalizedCoords = mixed;
            cudaTextureObject_t from;
            OK(cudaCreateTextureObject(&from, &resource, &how, nullptr));
            around<<<6, dim3(size, size)>>>(from, results, size, layered ? 1 : -1);
            OK(cudaMemcpy(seen.data(), results, count * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < count; i++) CHECK(seen[i] == values[i + (layered ? count : 0)]);
            OK(cudaDestroyTextureObject(from));
        }
        if (!layered) {
            cudaSurfaceObject_t to;
            OK(cudaCreateSurfaceObject(&to, &resource));
            paint_faces<<<6, dim3(size, size)>>>(to);
            cudaMemcpy3DParms back = {};
            back.srcArray = array, back.extent = extent, back.kind = cudaMemcpyDeviceToHost;
            back.dstPtr = make_cudaPitchedPtr(seen.data(), size * sizeof(float), size, size);
            OK(cudaMemcpy3D(&back));
            for (int i = 0; i < count; i++) CHECK(seen[i] == values[i] + 1000);
            OK(cudaDestroySurfaceObject(to));
        }
        OK(cudaFreeArray(array));
    }
}

int main() {
    cubes();
    std::vector<float> image(W * H);
    for (int i = 0; i < W * H; i++) image[i] = float(100 * i);
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    OK(cudaMallocArray(&array, &floats, W, H, cudaArraySurfaceLoadStore));
    OK(cudaMemcpy2DToArray(array, 0, 0, image.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    for (int filter : {cudaFilterModePoint, cudaFilterModeLinear}) {
        for (int mode : {cudaAddressModeClamp, cudaAddressModeBorder}) sampling(array, image, mode, filter, 0);
        for (int mode : {cudaAddressModeWrap, cudaAddressModeMirror}) sampling(array, image, mode, filter, 1);
    }

    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    OK(cudaCreateSurfaceObject(&surface, &resource));
    paint<<<H, W>>>(surface);
    std::vector<float> painted(W * H);
    OK(cudaMemcpy2DFromArray(painted.data(), W * 4, array, 0, 0, W * 4, H, cudaMemcpyDeviceToHost));
    for (int i = 0; i < W * H; i++) CHECK(painted[i] == 2 * image[i]);
    OK(cudaDestroySurfaceObject(surface));
    OK(cudaFreeArray(array));

    int4 numbers[4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}, {13, 14, 15, 16}}, *from, *to, back[5];
    OK(cudaMalloc(&from, sizeof numbers));
    OK(cudaMalloc(&to, sizeof back));
    OK(cudaMemcpy(from, numbers, sizeof numbers, cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = from;
    resource.res.linear.desc = cudaCreateChannelDesc<int4>();
    resource.res.linear.sizeInBytes = sizeof numbers;
    cudaTextureDesc plain = {};
    cudaTextureObject_t linear;
    OK(cudaCreateTextureObject(&linear, &resource, &plain, nullptr));
    fetch<<<1, 5>>>(linear, to);
    OK(cudaMemcpy(back, to, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(back[3].x == 13 && back[3].w == 16 && back[4].x == 0);
    OK(cudaDestroyTextureObject(linear));

    float *values, *results, seen[32];
    OK(cudaMalloc(&values, 32 * sizeof(float)));
    OK(cudaMalloc(&results, 32 * sizeof(float)));
    OK(cudaMemcpy(values, image.data(), 32 * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaBindTexture(nullptr, line, values, floats, 32 * sizeof(float)));
    by_reference<<<1, 32>>>(results);
    OK(cudaMemcpy(seen, results, sizeof seen, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) CHECK(seen[i] == image[i]);
    OK(cudaUnbindTexture(line));

    uchar4 bytes[2] = {{0, 51, 102, 255}, {255, 0, 0, 0}};
    cudaChannelFormatDesc four = cudaCreateChannelDesc<uchar4>();
    OK(cudaMallocArray(&array, &four, 2, 1));
    OK(cudaMemcpyToArray(array, 0, 0, bytes, sizeof bytes, cudaMemcpyHostToDevice));
    OK(cudaBindTextureToArray(pixels, array));
    float4 *shades, parts[2];
    OK(cudaMalloc(&shades, sizeof parts));
    colours<<<1, 2>>>(shades);
    OK(cudaMemcpy(parts, shades, sizeof parts, cudaMemcpyDeviceToHost));
    CHECK(parts[0].y == 0.2f && parts[0].w == 1 && parts[1].x == 1 && parts[1].w == 0);

    cudaExtent extent = make_cudaExtent(2, 2, 2);
    cudaArray_t cube;
    OK(cudaMalloc3DArray(&cube, &floats, extent));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(image.data(), 2 * sizeof(float), 2, 2);
    copy.dstArray = cube;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&copy));
    copy.dstPos = make_cudaPos(0, 1, 0);
    CHECK(cudaMemcpy3D(&copy) == cudaErrorInvalidValue);
    resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = cube;
    cudaTextureObject_t inside;
    OK(cudaCreateTextureObject(&inside, &resource, &plain, nullptr));
    volume<<<1, 8>>>(inside, results);
    OK(cudaMemcpy(seen, results, 8 * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++) CHECK(seen[i] == image[i]);

    printf("%d failures\n", failures);
    return failures != 0;
}
