// Textures and surfaces, sampled by code: an array is linear memory, and a texture object is the address of its description.
// The runtime makes both (crates/runtime/src/textures.rs), and the two descriptions must agree.
#pragma once

struct __gpulend_texels {
    unsigned char *data;
    // Bytes from one row to the next, and from one layer or slice to the next.
    size_t pitch, slice;
    unsigned int width, height, depth;
    // 0: signed, 1: unsigned, 2: floating point.
    unsigned char kind, channels, channel_bytes;
    // Whether integers are read as parts of 1, texels are mixed, and coordinates go from 0 to 1.
    unsigned char as_parts, mixed, normalized;
    // What is beyond an edge, for each axis: cudaTextureAddressMode.
    unsigned char address[3];
    float border[4];
};

// The components of what a fetch returns.
template <class T> struct __gpulend_components {
    typedef T type;
    static constexpr unsigned int count = 1;
};
#define __GPULEND_COMPONENTS(name, element)                                                                            \
    template <> struct __gpulend_components<name##1> { typedef element type; static constexpr unsigned int count = 1; }; \
    template <> struct __gpulend_components<name##2> { typedef element type; static constexpr unsigned int count = 2; }; \
    template <> struct __gpulend_components<name##4> { typedef element type; static constexpr unsigned int count = 4; };
__GPULEND_COMPONENTS(char, signed char)
__GPULEND_COMPONENTS(uchar, unsigned char)
__GPULEND_COMPONENTS(short, short)
__GPULEND_COMPONENTS(ushort, unsigned short)
__GPULEND_COMPONENTS(int, int)
__GPULEND_COMPONENTS(uint, unsigned int)
__GPULEND_COMPONENTS(float, float)
#undef __GPULEND_COMPONENTS

// The place along one axis that a position outside of it means; -1 for the border.
__GPULEND_DEVICE long long __gpulend_place(long long at, unsigned int size, unsigned char mode) {
    long long count = size;
    if (at >= 0 && at < count) return at;
    if (mode == 0) return (at % count + count) % count;
    if (mode == 1) return at < 0 ? 0 : count - 1;
    if (mode == 3) return -1;
    long long back = (at % (2 * count) + 2 * count) % (2 * count);
    return back < count ? back : 2 * count - 1 - back;
}
template <class T>
__GPULEND_DEVICE_METHOD T __gpulend_channel(const __gpulend_texels *texels, const unsigned char *place) {
    if (texels->kind == 2) {
        if (texels->channel_bytes == 4) return static_cast<T>(*reinterpret_cast<const float *>(place));
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(*reinterpret_cast<const unsigned short *>(place)));
        return static_cast<T>(wide);
    }
    long long value;
    bool is_signed = texels->kind == 0;
    switch (texels->channel_bytes) {
    case 1: value = is_signed ? *reinterpret_cast<const signed char *>(place) : *place; break;
    case 2:
        value = is_signed ? *reinterpret_cast<const short *>(place) : *reinterpret_cast<const unsigned short *>(place);
        break;
    default:
        value = is_signed ? *reinterpret_cast<const int *>(place) : *reinterpret_cast<const unsigned int *>(place);
    }
    if (!texels->as_parts) return static_cast<T>(value);
    float most = static_cast<float>((1ll << (8 * texels->channel_bytes - is_signed)) - 1);
    float part = static_cast<float>(value) / most;
    return static_cast<T>(part < -1 ? -1 : part);
}
template <class T>
__GPULEND_DEVICE_METHOD T __gpulend_texel(const __gpulend_texels *texels, long long x, long long y, long long z) {
    typedef __gpulend_components<T> Parts;
    typedef typename Parts::type Part;
    long long i = __gpulend_place(x, texels->width, texels->address[0]);
    long long j = __gpulend_place(y, texels->height, texels->address[1]);
    long long k = __gpulend_place(z, texels->depth, texels->address[2]);
    T made;
    Part *parts = reinterpret_cast<Part *>(&made);
    if (i < 0 || j < 0 || k < 0) {
        for (unsigned int c = 0; c < Parts::count; c++) parts[c] = static_cast<Part>(texels->border[c]);
        return made;
    }
    const unsigned char *place = texels->data + k * texels->slice + j * texels->pitch
                                 + i * texels->channels * texels->channel_bytes;
    for (unsigned int c = 0; c < Parts::count; c++)
        parts[c] = c < texels->channels ? __gpulend_channel<Part>(texels, place + c * texels->channel_bytes) : Part();
    return made;
}
// Weights have eight bits behind the point, as on hardware.
struct __gpulend_between {
    long long at;
    float weight;
    __GPULEND_DEVICE_METHOD __gpulend_between(float x) {
        float low = floorf(x - 0.5f);
        at = static_cast<long long>(low);
        weight = rintf((x - 0.5f - low) * 256) / 256;
    }
};
// A texel of an axis that the texture has not is its only one: `axes` says how many it has.
template <class T>
__GPULEND_DEVICE_METHOD T __gpulend_sample(const __gpulend_texels *texels, int axes, float x, float y, float z) {
    if (texels->normalized) {
        x *= static_cast<float>(texels->width);
        y *= static_cast<float>(texels->height);
        z *= static_cast<float>(texels->depth);
    }
    if (!texels->mixed)
        return __gpulend_texel<T>(texels, static_cast<long long>(floorf(x)),
                                  axes > 1 ? static_cast<long long>(floorf(y)) : 0,
                                  axes > 2 ? static_cast<long long>(floorf(z)) : static_cast<long long>(z));
    typedef __gpulend_components<T> Parts;
    typedef typename Parts::type Part;
    __gpulend_between in_x(x), in_y(y), in_z(z);
    float sums[4] = {0, 0, 0, 0};
    for (int corner = 0; corner < (1 << axes); corner++) {
        int right = corner & 1, below = corner >> 1 & 1, behind = corner >> 2;
        T texel = __gpulend_texel<T>(texels, in_x.at + right, axes > 1 ? in_y.at + below : 0,
                                     axes > 2 ? in_z.at + behind : static_cast<long long>(z));
        float weight = right ? in_x.weight : 1 - in_x.weight;
        if (axes > 1) weight *= below ? in_y.weight : 1 - in_y.weight;
        if (axes > 2) weight *= behind ? in_z.weight : 1 - in_z.weight;
        for (unsigned int c = 0; c < Parts::count; c++)
            sums[c] += weight * static_cast<float>(reinterpret_cast<Part *>(&texel)[c]);
    }
    T made;
    for (unsigned int c = 0; c < Parts::count; c++) reinterpret_cast<Part *>(&made)[c] = static_cast<Part>(sums[c]);
    return made;
}
__GPULEND_DEVICE const __gpulend_texels *__gpulend_texels_of(cudaTextureObject_t object) {
    return reinterpret_cast<const __gpulend_texels *>(object);
}

template <class T> __GPULEND_DEVICE_METHOD T tex1Dfetch(cudaTextureObject_t object, int x) {
    const __gpulend_texels *texels = __gpulend_texels_of(object);
    // Beyond the end a fetch reads zero.
    return x < 0 || static_cast<unsigned int>(x) >= texels->width ? T() : __gpulend_texel<T>(texels, x, 0, 0);
}
template <class T> __GPULEND_DEVICE_METHOD T tex1D(cudaTextureObject_t object, float x) {
    return __gpulend_sample<T>(__gpulend_texels_of(object), 1, x, 0, 0);
}
template <class T> __GPULEND_DEVICE_METHOD T tex2D(cudaTextureObject_t object, float x, float y) {
    return __gpulend_sample<T>(__gpulend_texels_of(object), 2, x, y, 0);
}
template <class T> __GPULEND_DEVICE_METHOD T tex3D(cudaTextureObject_t object, float x, float y, float z) {
    return __gpulend_sample<T>(__gpulend_texels_of(object), 3, x, y, z);
}
// A layer is chosen by its number, which is not a coordinate.
template <class T>
__GPULEND_DEVICE_METHOD T __gpulend_layer(cudaTextureObject_t object, int axes, float x, float y, int at,
                                          bool normalized = false) {
    __gpulend_texels texels = *__gpulend_texels_of(object);
    if (normalized) texels.normalized = 1;
    unsigned int last = texels.depth - 1;
    texels.data += texels.slice * (at < 0 ? 0 : static_cast<unsigned int>(at) > last ? last : static_cast<unsigned int>(at));
    texels.depth = 1;
    return __gpulend_sample<T>(&texels, axes, x, y, 0);
}
template <class T> __GPULEND_DEVICE_METHOD T tex1DLayered(cudaTextureObject_t object, float x, int layer) {
    return __gpulend_layer<T>(object, 1, x, 0, layer);
}
template <class T> __GPULEND_DEVICE_METHOD T tex2DLayered(cudaTextureObject_t object, float x, float y, int layer) {
    return __gpulend_layer<T>(object, 2, x, y, layer);
}
// A cube has six layers, its faces. A direction meets the one on the side of its largest part, at the other two, which are
// divided by it; each face has its own edges.
template <class T>
__GPULEND_DEVICE_METHOD T texCubemapLayered(cudaTextureObject_t object, float x, float y, float z, int layer) {
    float a = fabsf(x), b = fabsf(y), c = fabsf(z);
    int face = a >= b && a >= c ? x < 0 : b >= c ? 2 + (y < 0) : 4 + (z < 0);
    float largest = face < 2 ? a : face < 4 ? b : c;
    float right = face < 2 ? (face == 0 ? -z : z) : face == 5 ? -x : x;
    float down = face == 2 ? z : face == 3 ? -z : -y;
    return __gpulend_layer<T>(object, 2, (right / largest + 1) / 2, (down / largest + 1) / 2, 6 * layer + face, true);
}
template <class T> __GPULEND_DEVICE_METHOD T texCubemap(cudaTextureObject_t object, float x, float y, float z) {
    return texCubemapLayered<T>(object, x, y, z, 0);
}

// Surfaces: x counts bytes. Beyond an edge a read is clamped or zero, and a write is left out.
template <class T>
__GPULEND_DEVICE_METHOD T *__gpulend_surface(cudaSurfaceObject_t object, int x, int y, int z,
                                             cudaSurfaceBoundaryMode mode) {
    const __gpulend_texels *texels = __gpulend_texels_of(object);
    long long row = static_cast<long long>(texels->width) * texels->channels * texels->channel_bytes;
    bool inside = x >= 0 && x + static_cast<long long>(sizeof(T)) <= row && y >= 0
                  && static_cast<unsigned int>(y) < texels->height && z >= 0
                  && static_cast<unsigned int>(z) < texels->depth;
    if (!inside && mode == cudaBoundaryModeTrap) __trap();
    if (!inside && mode == cudaBoundaryModeZero) return 0;
    long long last = row - static_cast<long long>(sizeof(T));
    long long column = x < 0 ? 0 : x > last ? last : x;
    return reinterpret_cast<T *>(texels->data + __gpulend_place(z, texels->depth, 1) * texels->slice
                                 + __gpulend_place(y, texels->height, 1) * texels->pitch + column);
}
template <class T>
__GPULEND_DEVICE_METHOD T surf1Dread(cudaSurfaceObject_t surface, int x,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, 0, 0, mode);
    return place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf1Dread(T *to, cudaSurfaceObject_t surface, int x,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, 0, 0, mode);
    *to = place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf1Dwrite(T value, cudaSurfaceObject_t surface, int x,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    // A write beyond an edge goes nowhere, also where reads are clamped.
    if (mode == cudaBoundaryModeClamp) mode = cudaBoundaryModeZero;
    if (T *place = __gpulend_surface<T>(surface, x, 0, 0, mode)) *place = value;
}
template <class T>
__GPULEND_DEVICE_METHOD T surf2Dread(cudaSurfaceObject_t surface, int x, int y,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, y, 0, mode);
    return place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf2Dread(T *to, cudaSurfaceObject_t surface, int x, int y,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, y, 0, mode);
    *to = place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf2Dwrite(T value, cudaSurfaceObject_t surface, int x, int y,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    // A write beyond an edge goes nowhere, also where reads are clamped.
    if (mode == cudaBoundaryModeClamp) mode = cudaBoundaryModeZero;
    if (T *place = __gpulend_surface<T>(surface, x, y, 0, mode)) *place = value;
}
template <class T>
__GPULEND_DEVICE_METHOD T surf3Dread(cudaSurfaceObject_t surface, int x, int y, int z,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, y, z, mode);
    return place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf3Dread(T *to, cudaSurfaceObject_t surface, int x, int y, int z,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, y, z, mode);
    *to = place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf3Dwrite(T value, cudaSurfaceObject_t surface, int x, int y, int z,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    // A write beyond an edge goes nowhere, also where reads are clamped.
    if (mode == cudaBoundaryModeClamp) mode = cudaBoundaryModeZero;
    if (T *place = __gpulend_surface<T>(surface, x, y, z, mode)) *place = value;
}
template <class T>
__GPULEND_DEVICE_METHOD T surf2DLayeredread(cudaSurfaceObject_t surface, int x, int y, int layer,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, y, layer, mode);
    return place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf2DLayeredread(T *to, cudaSurfaceObject_t surface, int x, int y, int layer,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    T *place = __gpulend_surface<T>(surface, x, y, layer, mode);
    *to = place ? *place : T();
}
template <class T>
__GPULEND_DEVICE_METHOD void surf2DLayeredwrite(T value, cudaSurfaceObject_t surface, int x, int y, int layer,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    // A write beyond an edge goes nowhere, also where reads are clamped.
    if (mode == cudaBoundaryModeClamp) mode = cudaBoundaryModeZero;
    if (T *place = __gpulend_surface<T>(surface, x, y, layer, mode)) *place = value;
}
template <class T>
__GPULEND_DEVICE_METHOD T surfCubemapread(cudaSurfaceObject_t surface, int x, int y, int face,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    return surf2DLayeredread<T>(surface, x, y, face, mode);
}
template <class T>
__GPULEND_DEVICE_METHOD void surfCubemapread(T *to, cudaSurfaceObject_t surface, int x, int y, int face,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    surf2DLayeredread(to, surface, x, y, face, mode);
}
template <class T>
__GPULEND_DEVICE_METHOD void surfCubemapwrite(T value, cudaSurfaceObject_t surface, int x, int y, int face,
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    surf2DLayeredwrite(value, surface, x, y, face, mode);
}

// Texture references: variables of file scope, which CUDA 12 has no more and many programs still have. Such a variable is one of
// the device; binding makes a texture object and puts it there.
template <class T, cudaTextureReadMode Mode> struct __gpulend_fetched {
    typedef T type;
};
#define __GPULEND_FETCHED(name)                                                                                        \
    template <> struct __gpulend_fetched<name##1, cudaReadModeNormalizedFloat> { typedef float1 type; };               \
    template <> struct __gpulend_fetched<name##2, cudaReadModeNormalizedFloat> { typedef float2 type; };               \
    template <> struct __gpulend_fetched<name##4, cudaReadModeNormalizedFloat> { typedef float4 type; };
__GPULEND_FETCHED(char)
__GPULEND_FETCHED(uchar)
__GPULEND_FETCHED(short)
__GPULEND_FETCHED(ushort)
#undef __GPULEND_FETCHED
template <> struct __gpulend_fetched<signed char, cudaReadModeNormalizedFloat> { typedef float type; };
template <> struct __gpulend_fetched<char, cudaReadModeNormalizedFloat> { typedef float type; };
template <> struct __gpulend_fetched<unsigned char, cudaReadModeNormalizedFloat> { typedef float type; };
template <> struct __gpulend_fetched<short, cudaReadModeNormalizedFloat> { typedef float type; };
template <> struct __gpulend_fetched<unsigned short, cudaReadModeNormalizedFloat> { typedef float type; };

#define cudaTextureType1D 1
#define cudaTextureType2D 2
#define cudaTextureType3D 3
template <class T, int Axes = 1, cudaTextureReadMode Mode = cudaReadModeElementType> struct __gpulend_texture {
    // First: the only member that the device reads.
    cudaTextureObject_t object = 0;
    int normalized = 0;
    cudaTextureFilterMode filterMode = cudaFilterModePoint;
    cudaTextureAddressMode addressMode[3] = {cudaAddressModeClamp, cudaAddressModeClamp, cudaAddressModeClamp};
    cudaChannelFormatDesc channelDesc = {};
};
template <class T, cudaTextureReadMode Mode> using __gpulend_fetched_by = typename __gpulend_fetched<T, Mode>::type;
#ifdef __GPULEND_TEXTURE_REFERENCES
#define texture __attribute__((device)) __gpulend_texture
#endif

template <class T, int Axes, cudaTextureReadMode Mode>
__GPULEND_DEVICE_METHOD __gpulend_fetched_by<T, Mode> tex1Dfetch(const __gpulend_texture<T, Axes, Mode> &from, int x) {
    return tex1Dfetch<__gpulend_fetched_by<T, Mode>>(from.object, x);
}
template <class T, int Axes, cudaTextureReadMode Mode>
__GPULEND_DEVICE_METHOD __gpulend_fetched_by<T, Mode> tex1D(const __gpulend_texture<T, Axes, Mode> &from, float x) {
    return tex1D<__gpulend_fetched_by<T, Mode>>(from.object, x);
}
template <class T, int Axes, cudaTextureReadMode Mode>
__GPULEND_DEVICE_METHOD __gpulend_fetched_by<T, Mode> tex2D(const __gpulend_texture<T, Axes, Mode> &from, float x, float y) {
    return tex2D<__gpulend_fetched_by<T, Mode>>(from.object, x, y);
}
template <class T, int Axes, cudaTextureReadMode Mode>
__GPULEND_DEVICE_METHOD __gpulend_fetched_by<T, Mode> tex3D(const __gpulend_texture<T, Axes, Mode> &from, float x, float y,
                                                             float z) {
    return tex3D<__gpulend_fetched_by<T, Mode>>(from.object, x, y, z);
}

template <class T> static inline cudaChannelFormatDesc cudaCreateChannelDesc() {
    typedef typename __gpulend_components<T>::type Part;
    constexpr int bits = 8 * sizeof(Part), count = __gpulend_components<T>::count;
    cudaChannelFormatKind kind = std::is_floating_point<Part>::value ? cudaChannelFormatKindFloat
                                 : std::is_signed<Part>::value       ? cudaChannelFormatKindSigned
                                                                     : cudaChannelFormatKindUnsigned;
    return cudaCreateChannelDesc(bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0, kind);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t __gpulend_bind(const __gpulend_texture<T, Axes, Mode> &to, const cudaResourceDesc &resource) {
    cudaTextureDesc how = {};
    for (int axis = 0; axis < 3; axis++) how.addressMode[axis] = to.addressMode[axis];
    how.filterMode = to.filterMode;
    how.readMode = Mode;
    how.normalizedCoords = to.normalized;
    cudaTextureObject_t made = 0;
    cudaError_t status = cudaCreateTextureObject(&made, &resource, &how, 0);
    if (status != cudaSuccess) return status;
    return cudaMemcpyToSymbol(to, &made, sizeof made);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaBindTexture(size_t *offset, const __gpulend_texture<T, Axes, Mode> &to, const void *from,
                                          const cudaChannelFormatDesc &format, size_t size = UINT_MAX) {
    if (offset) *offset = 0;
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = const_cast<void *>(from);
    resource.res.linear.desc = format;
    resource.res.linear.sizeInBytes = size;
    return __gpulend_bind(to, resource);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaBindTexture(size_t *offset, const __gpulend_texture<T, Axes, Mode> &to, const void *from,
                                          size_t size = UINT_MAX) {
    return cudaBindTexture(offset, to, from, cudaCreateChannelDesc<T>(), size);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaBindTexture(size_t *offset, const __gpulend_texture<T, Axes, Mode> *to, const void *from,
                                          const cudaChannelFormatDesc *format, size_t size = UINT_MAX) {
    return cudaBindTexture(offset, *to, from, *format, size);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaBindTexture2D(size_t *offset, const __gpulend_texture<T, Axes, Mode> &to, const void *from,
                                            const cudaChannelFormatDesc &format, size_t width, size_t height,
                                            size_t pitch) {
    if (offset) *offset = 0;
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = const_cast<void *>(from);
    resource.res.pitch2D.desc = format;
    resource.res.pitch2D.width = width;
    resource.res.pitch2D.height = height;
    resource.res.pitch2D.pitchInBytes = pitch;
    return __gpulend_bind(to, resource);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaBindTextureToArray(const __gpulend_texture<T, Axes, Mode> &to, cudaArray_const_t array) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = const_cast<cudaArray_t>(array);
    return __gpulend_bind(to, resource);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaBindTextureToArray(const __gpulend_texture<T, Axes, Mode> &to, cudaArray_const_t array,
                                                 const cudaChannelFormatDesc &) {
    return cudaBindTextureToArray(to, array);
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaUnbindTexture(const __gpulend_texture<T, Axes, Mode> &from) {
    cudaTextureObject_t made = 0, none = 0;
    cudaError_t status = cudaMemcpyFromSymbol(&made, from, sizeof made);
    if (status == cudaSuccess) status = cudaMemcpyToSymbol(from, &none, sizeof none);
    if (status == cudaSuccess && made != 0) status = cudaDestroyTextureObject(made);
    return status;
}
template <class T, int Axes, cudaTextureReadMode Mode>
static inline cudaError_t cudaUnbindTexture(const __gpulend_texture<T, Axes, Mode> *from) {
    return cudaUnbindTexture(*from);
}
