// Launches of one kernel by the bare driver, in a loop: the limit for every library.
#include <stdint.h>
#include <time.h>

typedef int (*launch_function)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, void *stream,
                               void **parameters, void **extra);

// Nanoseconds that `count` launches with three pointers and an int take, all told.
double launch_many(launch_function launch, void *function, void *stream, uint64_t a, uint64_t b,
                   uint64_t c, int n, int count) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < count; i++) {
        void *parameters[] = {&a, &b, &c, &n};
        if (launch(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, 0)) return -1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec);
}
