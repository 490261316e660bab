/* Memory that is freed right before the process ends: each deleter still runs, after the work on its memory. */
#include "check.h"

enum { LEASES = 20, FLOATS = 1024 };

static int deleted;

static void note_deletion(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    (void)address;
    (void)bytes;
    deleted++;
}

/* Registered before gpulend is used, so it runs after everything that gpulend does at exit. */
static void report(void) { printf("%d deleted\n", deleted); }

int main(void)
{
    const int64_t all = LEASES * FLOATS, part = FLOATS;
    EXPECT(atexit(report) == 0);
    gpulend_lease source, memory;
    gpulend_stream stream;
    OK(gpulend_stream_create(0, 0, &stream));
    OK(gpulend_zeros(0, GPULEND_FLOAT32, 1, &part, 0, &source));
    OK(gpulend_zeros(0, GPULEND_FLOAT32, 1, &all, 0, &memory));
    gpulend_lease_info info = {.size = sizeof info};
    OK(gpulend_info(memory, &info));
    for (int i = 0; i < LEASES; i++) {
        gpulend_lease piece;
        gpulend_claim claim = {.size = sizeof claim,
                               .address = info.address + (uint64_t)i * FLOATS * sizeof(float),
                               .shape = &part,
                               .ndim = 1,
                               .device = 0,
                               .dtype = GPULEND_FLOAT32};
        OK(gpulend_wrap(&claim, note_deletion, NULL, &piece));
        OK(gpulend_copy(source, piece, stream));
        OK(gpulend_free(piece));
    }
    return 0;
}
