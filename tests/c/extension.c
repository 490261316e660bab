/* A library of somebody's inside Python: it has memory, and hands it out as leases. */
#include <gpulend.h>

#include <stdlib.h>

static int freed;

static void give_back(void *context, uint64_t address, uint64_t bytes)
{
    (void)address;
    (void)bytes;
    free(context);
    freed++;
}

int how_often_freed(void);
gpulend_status make_floats(int64_t count, gpulend_lease *lease);

int how_often_freed(void) { return freed; }

gpulend_status make_floats(int64_t count, gpulend_lease *lease)
{
    float *memory = malloc((size_t)count * sizeof *memory);
    for (int64_t i = 0; i < count; i++) memory[i] = (float)i;
    gpulend_claim claim = {.size = sizeof claim,
                           .address = (uint64_t)(uintptr_t)memory,
                           .shape = &count,
                           .ndim = 1,
                           .device = GPULEND_HOST,
                           .dtype = GPULEND_FLOAT32};
    gpulend_status status = gpulend_wrap(&claim, give_back, memory, lease);
    if (status) free(memory);
    return status;
}
