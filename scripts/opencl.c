/* An OpenCL driver that passes on to the system's PoCL, whose symbols it keeps apart.
 *
 * PoCL of a Linux distribution shares LLVM with other programs. In one process with TensorFlow, whose library exports an
 * LLVM of its own, it would call that one and crash. Bound deeply, it looks in its own libraries first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

enum { PLATFORM_NOT_FOUND = -1001 };

static void *find(const char *name) {
    void *library = dlopen("libpocl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    return library ? dlsym(library, name) : NULL;
}

int clIcdGetPlatformIDsKHR(unsigned count, void *platforms, unsigned *found) {
    int (*get)(unsigned, void *, unsigned *) = find("clIcdGetPlatformIDsKHR");
    return get ? get(count, platforms, found) : PLATFORM_NOT_FOUND;
}

int clGetPlatformInfo(void *platform, unsigned name, size_t size, void *value, size_t *needed) {
    int (*get)(void *, unsigned, size_t, void *, size_t *) = find("clGetPlatformInfo");
    return get ? get(platform, name, size, value, needed) : PLATFORM_NOT_FOUND;
}

void *clGetExtensionFunctionAddress(const char *name) {
    void *(*get)(const char *) = find("clGetExtensionFunctionAddress");
    return get ? get(name) : NULL;
}
