/* How fast the simulated GPU allocates and copies, beside the C library on the same machine.
 *
 * cc -O2 -std=c11 -o simulator simulator.c -ldl && ./simulator path/to/libgpulend_sim.so
 * Best of ROUNDS, interleaved; GPULEND_SIM_CHECK=off or memory as the environment says.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15 };
/* With checks each allocation is filled and poisoned: fewer will do. */
static int calls = 20000;
static const size_t MEBIBYTE = (size_t)1 << 20, GIBIBYTE = (size_t)1 << 30;

static void *library;

static void *find(const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "%s is not there\n", name);
        exit(1);
    }
    return function;
}

#define LOAD(name, arguments) static int (*name) arguments
LOAD(cuInit, (unsigned));
LOAD(cuDevicePrimaryCtxRetain, (void **, int));
LOAD(cuCtxSetCurrent, (void *));
LOAD(cuMemAlloc_v2, (uintptr_t *, size_t));
LOAD(cuMemFree_v2, (uintptr_t));
LOAD(cuMemAllocAsync, (uintptr_t *, size_t, void *));
LOAD(cuMemFreeAsync, (uintptr_t, void *));
LOAD(cuMemAllocHost_v2, (void **, size_t));
LOAD(cuMemFreeHost, (void *));
LOAD(cuMemcpyHtoD_v2, (uintptr_t, const void *, size_t));
LOAD(cuMemcpyDtoH_v2, (void *, uintptr_t, size_t));
LOAD(cuMemcpyDtoD_v2, (uintptr_t, uintptr_t, size_t));
LOAD(cuMemsetD8_v2, (uintptr_t, unsigned char, size_t));
LOAD(cuCtxSynchronize, (void));

static void check(int status)
{
    if (status != 0) {
        fprintf(stderr, "driver error %d\n", status);
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *context;
static uintptr_t device, other;
static char *host, *spare, *pinned;

static void allocate(void)
{
    uintptr_t address;
    for (int call = 0; call < calls; call++) {
        check(cuMemAlloc_v2(&address, MEBIBYTE));
        check(cuMemFree_v2(address));
    }
}

static void allocate_ordered(void)
{
    uintptr_t address;
    for (int call = 0; call < calls; call++) {
        check(cuMemAllocAsync(&address, MEBIBYTE, NULL));
        check(cuMemFreeAsync(address, NULL));
        if (call % 100 == 99)
            check(cuCtxSynchronize());
    }
}

static void allocate_host(void)
{
    for (int call = 0; call < calls; call++) {
        /* Volatile, or the compiler leaves the pair out. */
        void *volatile address = malloc(MEBIBYTE);
        free(address);
    }
}

static void copy_up(void) { check(cuMemcpyHtoD_v2(device, host, GIBIBYTE)); }
static void copy_down(void) { check(cuMemcpyDtoH_v2(spare, device, GIBIBYTE)); }
static void copy_pinned(void) { check(cuMemcpyHtoD_v2(device, pinned, GIBIBYTE)); }
static void copy_across(void)
{
    check(cuMemcpyDtoD_v2(other, device, GIBIBYTE));
    check(cuCtxSynchronize());
}
static void copy_host(void) { memcpy(spare, host, GIBIBYTE); }
static void fill(void)
{
    check(cuMemsetD8_v2(device, 7, GIBIBYTE));
    check(cuCtxSynchronize());
}
static void fill_host(void) { memset(spare, 7, GIBIBYTE); }

struct row {
    const char *name;
    void (*run)(void);
    double best;
};

static void compare(struct row *rows, int count, int each, const char *unit, double scale)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int row = 0; row < count; row++) {
            double start = now();
            rows[row].run();
            double spent = (now() - start) / each;
            if (round == 0 || spent < rows[row].best)
                rows[row].best = spent;
        }
    for (int row = 0; row < count; row++)
        printf("%-36s %10.1f %s  %6.2f x\n", rows[row].name, rows[row].best * scale, unit,
               rows[row].best / rows[0].best);
}

int main(int count, char **arguments)
{
    library = dlopen(count > 1 ? arguments[1] : "libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#define FIND(name) *(void **)&name = find(#name)
    FIND(cuInit), FIND(cuDevicePrimaryCtxRetain), FIND(cuCtxSetCurrent), FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2), FIND(cuMemAllocAsync), FIND(cuMemFreeAsync), FIND(cuMemAllocHost_v2);
    FIND(cuMemFreeHost), FIND(cuMemcpyHtoD_v2), FIND(cuMemcpyDtoH_v2), FIND(cuMemcpyDtoD_v2);
    FIND(cuMemsetD8_v2), FIND(cuCtxSynchronize);
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxSetCurrent(context));

    const char *checks = getenv("GPULEND_SIM_CHECK");
    printf("checks: %s\n", checks ? checks : "memory");
    if (!checks || strcmp(checks, "off") != 0)
        calls = 200;
    struct row allocations[] = {{"malloc + free 1 MiB", allocate_host, 0},
                                {"cuMemAlloc + cuMemFree 1 MiB", allocate, 0},
                                {"cuMemAllocAsync + cuMemFreeAsync", allocate_ordered, 0}};
    compare(allocations, 3, calls, "ns", 1e9);

    check(cuMemAlloc_v2(&device, GIBIBYTE));
    check(cuMemAlloc_v2(&other, GIBIBYTE));
    check(cuMemAllocHost_v2((void **)&pinned, GIBIBYTE));
    host = malloc(GIBIBYTE);
    spare = malloc(GIBIBYTE);
    memset(host, 1, GIBIBYTE), memset(spare, 2, GIBIBYTE), memset(pinned, 3, GIBIBYTE);
    fill(), copy_across();
    struct row copies[] = {{"memcpy 1 GiB", copy_host, 0},
                           {"cuMemcpyHtoD, pageable", copy_up, 0},
                           {"cuMemcpyHtoD, pinned", copy_pinned, 0},
                           {"cuMemcpyDtoH, pageable", copy_down, 0},
                           {"cuMemcpyDtoD", copy_across, 0}};
    compare(copies, 5, 1, "ms", 1e3);
    struct row fills[] = {{"memset 1 GiB", fill_host, 0}, {"cuMemsetD8", fill, 0}};
    compare(fills, 2, 1, "ms", 1e3);
    check(cuMemFree_v2(device)), check(cuMemFree_v2(other)), check(cuMemFreeHost(pinned));
    free(host), free(spare);
    return 0;
}
