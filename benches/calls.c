/* What gpulend.h costs beside the driver calls that it makes: wrap, describe and free of GPU memory, and launches, from C.
 *
 * calls [path of libcuda.so.1 or libgpulend_sim.so]: the driver that gpulend uses, by default the one it told of.
 * Best of ROUNDS, interleaved, in one process.
 */
#define _POSIX_C_SOURCE 200809L
#include <gpulend.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Fewer launches than any driver queues before it has the caller wait. */
enum { ROUNDS = 15, CALLS = 20000, LAUNCHES = 500, ATTRIBUTES = 10 };

static int (*cuPointerGetAttributes)(unsigned, const int *, void **, uint64_t);
static int (*cuDeviceGetUuid_v2)(char *, int);
static int (*cuDeviceGet)(int *, int);
static int (*cuEventCreate)(void **, unsigned);
static int (*cuEventRecord)(void *, void *);
static int (*cuEventQuery)(void *);
static int (*cuStreamIsCapturing)(void *, int *);
static int (*cuCtxGetCurrent)(void **);
static int (*cuCtxSetCurrent)(void *);
static int (*cuDevicePrimaryCtxRetain)(void **, int);
static int (*cuModuleLoadData)(void **, const void *);
static int (*cuModuleGetFunction)(void **, void *, const char *);
static int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                             void **);

static void must(int status, const char *what)
{
    if (status) {
        fprintf(stderr, "%s failed: %d (%s)\n", what, status, gpulend_last_error());
        exit(1);
    }
}

#define MUST(call) must((int)(call), #call)

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static uint64_t address;
static int64_t shape[2] = {4, 4};
static gpulend_claim claim;
static void *event;
static unsigned long freed;

static void count(void *context, uint64_t where, uint64_t bytes)
{
    (void)context;
    (void)where;
    (void)bytes;
    freed++;
}

static void ask(const int *attributes, unsigned many)
{
    uint64_t values[ATTRIBUTES] = {0};
    void *places[ATTRIBUTES];
    for (unsigned i = 0; i < many; i++) places[i] = &values[i];
    MUST(cuPointerGetAttributes(many, attributes, places, address));
}

/* Type, managed, ordinal, range and the rest that a passport holds. */
static const int ALL[ATTRIBUTES] = {2, 8, 9, 11, 12, 7, 1, 17, 14, 10};

static void driver_wrap(void) { ask(ALL, ATTRIBUTES); }

static void driver_describe(void)
{
    char uuid[16];
    int device;
    ask(ALL, ATTRIBUTES);
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDeviceGetUuid_v2(uuid, device));
}

/* An event on the legacy stream, after a look whether that is being captured, and a look whether it has happened. */
static void driver_free(void)
{
    void *current;
    int capturing;
    MUST(cuCtxGetCurrent(&current));
    MUST(cuStreamIsCapturing((void *)1, &capturing));
    MUST(cuEventRecord(event, (void *)1));
    (void)cuEventQuery(event);
}

static void driver_nothing(void) {}

static gpulend_lease wrapped[CALLS];

static void gpulend_wrap_one(int i) { MUST(gpulend_wrap(&claim, count, NULL, &wrapped[i])); }
static void gpulend_free_one(int i) { MUST(gpulend_free(wrapped[i])); }

static void gpulend_describe_one(int i)
{
    gpulend_passport passport;
    (void)i;
    passport.size = sizeof passport;
    MUST(gpulend_describe(address, &passport));
}

/* Three arrays and a number, as a vector addition takes, and nothing done with them. */
static const char PTX[] = ".version 6.3\n.target sm_75\n.address_size 64\n"
                          ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }\n";
static void *function;
static gpulend_kernel kernel;
static gpulend_argument arguments[4];
static gpulend_launch_shape one = {sizeof one, {1, 1, 1}, {1, 1, 1}, 0, 0, 0};

static void driver_launch(void)
{
    uint64_t a = address, b = address, c = address;
    uint32_t n = 16;
    void *parameters[4] = {&a, &b, &c, &n};
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, (void *)1, parameters, NULL));
}

static void gpulend_launch_one(int i)
{
    (void)i;
    MUST(gpulend_launch(kernel, &one, arguments, 4));
}

static void prepare_launches(const gpulend_lease leases[3])
{
    gpulend_module module;
    void *loaded;
    gpulend_source source = {.size = sizeof source, .text = PTX};
    MUST(gpulend_compile(&source, &module));
    MUST(gpulend_kernel_get(module, "nothing", &kernel));
    MUST(cuModuleLoadData(&loaded, PTX));
    MUST(cuModuleGetFunction(&function, loaded, "nothing"));
    for (int i = 0; i < 3; i++) arguments[i] = gpulend_lease_argument(leases[i]);
    arguments[3] = gpulend_int_argument(16);
}

static double best(double found, double before) { return before == 0 || found < before ? found : before; }

static double time_driver(void (*call)(void), int calls)
{
    double start = now();
    for (int i = 0; i < calls; i++) call();
    return (now() - start) / calls;
}

static double time_ours(void (*call)(int), int calls)
{
    double start = now();
    for (int i = 0; i < calls; i++) call(i);
    return (now() - start) / calls;
}

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "%s is not there\n", name);
        exit(1);
    }
    return function;
}

int main(int argc, char **argv)
{
    gpulend_lease memory, leases[3];
    gpulend_device_info device = {.size = sizeof device};
    MUST(gpulend_zeros(0, GPULEND_FLOAT32, 2, shape, 0, &memory));
    for (int i = 0; i < 3; i++) MUST(gpulend_zeros(0, GPULEND_FLOAT32, 2, shape, 0, &leases[i]));
    MUST(gpulend_pointer(memory, 0, &address));
    MUST(gpulend_device(0, &device));
    MUST(gpulend_synchronize(0));
    claim.size = sizeof claim;
    claim.address = address;
    claim.shape = shape;
    claim.ndim = 2;
    claim.dtype = GPULEND_FLOAT32;

    const char *path = argc > 1 ? argv[1] : device.flags & GPULEND_SIMULATED ? "libgpulend_sim.so" : "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!library) library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&cuPointerGetAttributes = find(library, "cuPointerGetAttributes");
    *(void **)&cuDeviceGetUuid_v2 = find(library, "cuDeviceGetUuid_v2");
    *(void **)&cuDeviceGet = find(library, "cuDeviceGet");
    *(void **)&cuEventCreate = find(library, "cuEventCreate");
    *(void **)&cuEventRecord = find(library, "cuEventRecord");
    *(void **)&cuEventQuery = find(library, "cuEventQuery");
    *(void **)&cuStreamIsCapturing = find(library, "cuStreamIsCapturing");
    *(void **)&cuCtxGetCurrent = find(library, "cuCtxGetCurrent");
    *(void **)&cuCtxSetCurrent = find(library, "cuCtxSetCurrent");
    *(void **)&cuDevicePrimaryCtxRetain = find(library, "cuDevicePrimaryCtxRetain");
    *(void **)&cuModuleLoadData = find(library, "cuModuleLoadData");
    *(void **)&cuModuleGetFunction = find(library, "cuModuleGetFunction");
    *(void **)&cuLaunchKernel = find(library, "cuLaunchKernel");
    void *context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuEventCreate(&event, 2));
    prepare_launches(leases);

    double driver[5] = {0}, ours[5] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        claim.flags = 0;
        driver[0] = best(time_driver(driver_wrap, CALLS), driver[0]);
        ours[0] = best(time_ours(gpulend_wrap_one, CALLS), ours[0]);
        driver[1] = best(time_driver(driver_describe, CALLS), driver[1]);
        ours[1] = best(time_ours(gpulend_describe_one, CALLS), ours[1]);
        driver[2] = best(time_driver(driver_free, CALLS), driver[2]);
        ours[2] = best(time_ours(gpulend_free_one, CALLS), ours[2]);
        MUST(gpulend_synchronize(0));
        claim.flags = GPULEND_READY;
        (void)time_ours(gpulend_wrap_one, CALLS);
        driver[3] = best(time_driver(driver_nothing, CALLS), driver[3]);
        ours[3] = best(time_ours(gpulend_free_one, CALLS), ours[3]);
        driver[4] = best(time_driver(driver_launch, LAUNCHES), driver[4]);
        MUST(gpulend_synchronize(0));
        ours[4] = best(time_ours(gpulend_launch_one, LAUNCHES), ours[4]);
        MUST(gpulend_synchronize(0));
    }
    const char *jobs[5] = {"wrap", "describe", "free", "free, if no stream used it", "launch on three leases"};
    const char *calls[5] = {"cuPointerGetAttributes", "the same and cuDeviceGetUuid",
                            "cuStreamIsCapturing, cuEventRecord, cuEventQuery", "none", "cuLaunchKernel"};
    printf("%s, ns a call, best of %d rounds of %d, launches %d\n", device.name, ROUNDS, CALLS, LAUNCHES);
    for (int i = 0; i < 5; i++) {
        printf("%-27s gpulend %6.0f   driver %6.0f   (%s)\n", jobs[i], ours[i], driver[i], calls[i]);
    }
    double all = ours[0] + ours[1] + ours[2], bare = driver[0] + driver[1] + driver[2];
    printf("%-27s gpulend %6.0f   driver %6.0f   %.2f x\n", "wrap, describe and free", all, bare, all / bare);
    for (int i = 0; i < 3; i++) MUST(gpulend_free(leases[i]));
    MUST(gpulend_free(memory));
    return 0;
}
