// Launches of one kernel by the bare driver, in a loop: the limit for every library.
#include <stdint.h>
#include <time.h>

// cuLaunchKernel.
typedef int (*launch_function)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, void *stream,
                               void **parameters, void **extra);

// CUlaunchConfig.
struct configuration {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
};

// cuLaunchKernelEx.
typedef int (*launch_ex_function)(const struct configuration *, void *function, void **parameters,
                                  void **extra);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

// Nanoseconds that `count` launches with three pointers and an int take, all told.
double launch_many(launch_function launch, void *function, void *stream, uint64_t a, uint64_t b,
                   uint64_t c, int n, int count) {
    double start = now();
    for (int i = 0; i < count; i++) {
        void *parameters[] = {&a, &b, &c, &n};
        if (launch(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, 0)) return -1;
    }
    return now() - start;
}

// The same by the driver's other function.
double launch_many_ex(launch_ex_function launch, void *function, void *stream, uint64_t a,
                      uint64_t b, uint64_t c, int n, int count) {
    double start = now();
    for (int i = 0; i < count; i++) {
        void *parameters[] = {&a, &b, &c, &n};
        struct configuration configuration = {{1, 1, 1}, {32, 1, 1}, 0, stream, 0, 0};
        if (launch(&configuration, function, parameters, 0)) return -1;
    }
    return now() - start;
}
