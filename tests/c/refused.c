/* A driver that fails after all questions were answered: the memory is still the caller's, and its deleter not called.
 *
 * Run with GPULEND_SIM_FAULTS="cuEventRecord#1=UNKNOWN".
 */
#include "check.h"

static int deleted;

static void count(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    (void)address;
    (void)bytes;
    deleted++;
}

int main(void)
{
    const int64_t shape[1] = {16};
    gpulend_lease memory, lease = 77;
    gpulend_stream own;
    uint64_t address;
    OK(gpulend_zeros(0, GPULEND_INT64, 1, shape, 0, &memory));
    OK(gpulend_pointer(memory, 0, &address));
    OK(gpulend_stream_wrap(0, 2, &own));
    gpulend_claim claim = {.size = sizeof claim,
                           .address = address,
                           .shape = shape,
                           .ndim = 1,
                           .dtype = GPULEND_INT64,
                           .ready_on = own};
    uint64_t before = live();
    REFUSED(1001, gpulend_wrap(&claim, count, NULL, &lease));
    EXPECT(strstr(gpulend_last_error(), "cuEventRecord"));
    EXPECT(deleted == 0 && lease == 77 && live() == before);
    OK(gpulend_wrap(&claim, count, NULL, &lease));
    OK(gpulend_free(lease));
    for (int turn = 0; turn < 1000000 && deleted == 0; turn++) OK(gpulend_synchronize(0));
    EXPECT(deleted == 1);
    OK(gpulend_free(memory));
    OK(gpulend_stream_free(own));
    puts("done");
    return 0;
}
