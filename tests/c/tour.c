/* Every function of gpulend.h in its right use, on GPU 0. Compiled as C11 and as C++17. */
#include "check.h"

#include <stddef.h>

/* DLPack's structs, as its header has them. */
typedef struct DLTensor {
    void *data;
    struct {
        int32_t device_type, device_id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    DLTensor dl_tensor;
};

static int simulated;

static gpulend_lease_info info_of(gpulend_lease lease)
{
    gpulend_lease_info info;
    memset(&info, 0xff, sizeof info);
    info.size = sizeof info;
    OK(gpulend_info(lease, &info));
    EXPECT(info.size == sizeof info && info.reserved == 0);
    return info;
}

static void about(void)
{
    EXPECT(strcmp(gpulend_version(), "0.1.0") == 0);
    EXPECT(gpulend_abi_version() == (GPULEND_ABI_MAJOR << 16 | GPULEND_ABI_MINOR));
    gpulend_dtype dtype;
    OK(gpulend_dtype_parse("bfloat16", &dtype));
    EXPECT(dtype == GPULEND_BFLOAT16 && GPULEND_DTYPE_CODE(dtype) == 4 && GPULEND_DTYPE_BITS(dtype) == 16);
    EXPECT(GPULEND_DTYPE_LANES(dtype) == 1);
    char name[32];
    uint64_t needed;
    OK(gpulend_dtype_name(GPULEND_FLOAT32, name, sizeof name, &needed));
    EXPECT(strcmp(name, "float32") == 0 && needed == 8);
    OK(gpulend_dtype_name(GPULEND_FLOAT32, name, 4, NULL));
    EXPECT(strcmp(name, "flo") == 0);
    REFUSED(108, gpulend_dtype_parse("float33", &dtype));
    EXPECT(strstr(gpulend_last_error(), "float33"));
}

static void devices(void)
{
    int32_t count = 0;
    OK(gpulend_device_count(&count));
    EXPECT(count >= 1);
    gpulend_device_info info;
    info.size = sizeof info;
    OK(gpulend_device(0, &info));
    EXPECT(info.memory > 0 && info.name[0] && info.major >= 5);
    simulated = (info.flags & GPULEND_SIMULATED) != 0;
    EXPECT(simulated == (strcmp(info.name, "Simulated GPU") == 0));
    char words[300];
    OK(gpulend_driver(words, sizeof words, NULL));
    EXPECT(strstr(words, simulated ? "simulated GPU" : "CUDA driver"));
    printf("%s: %s, sm_%d%d\n", words, info.name, (int)info.major, (int)info.minor);
    REFUSED(916, gpulend_device(200, &info));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_device(-7, &info));
    if (simulated) REFUSED(911, gpulend_simulate("devices=7,seed=3"));
}

static void copies(void)
{
    float numbers[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
    const int64_t shape[2] = {2, 3}, three[1] = {3}, column[2] = {3, 2};
    gpulend_lease a, b, part, turned;
    OK(gpulend_allocate(0, GPULEND_FLOAT32, 2, shape, 0, &a));
    OK(gpulend_zeros(0, GPULEND_FLOAT32, 2, shape, 0, &b));
    OK(gpulend_copy_to_host(b, back, sizeof back, 0));
    for (int i = 0; i < 6; i++) EXPECT(back[i] == 0);
    OK(gpulend_copy_from_host(a, numbers, sizeof numbers, 0));
    OK(gpulend_copy(a, b, 0));
    OK(gpulend_copy_to_host(b, back, sizeof back, 0));
    EXPECT(memcmp(back, numbers, sizeof back) == 0);

    gpulend_lease_info info = info_of(a);
    EXPECT(info.bytes == 24 && info.device == 0 && info.ndim == 2 && info.dtype == GPULEND_FLOAT32);
    EXPECT(info.memory == GPULEND_MEMORY_DEVICE && info.flags & GPULEND_COMPACT && !(info.flags & GPULEND_READONLY));
    int64_t extents[2], strides[2];
    OK(gpulend_shape(a, 2, extents, strides));
    EXPECT(extents[0] == 2 && extents[1] == 3 && strides[0] == 3 && strides[1] == 1);
    OK(gpulend_shape(a, 2, NULL, NULL));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_shape(a, 3, extents, strides));

    OK(gpulend_slice(a, 1, 1, 3, 1, &part));
    OK(gpulend_copy_to_host(part, back, 16, 0));
    EXPECT(back[0] == 2 && back[1] == 3 && back[2] == 5 && back[3] == 6);
    REFUSED(GPULEND_STILL_LENT, gpulend_release(a));
    EXPECT(strstr(gpulend_last_error(), "sub-lease"));
    OK(gpulend_release(part));
    REFUSED(112, gpulend_slice(a, 0, 0, 2, 0, &part));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_slice(a, 2, 0, 2, 1, &part));

    OK(gpulend_reshape(a, 2, column, &turned));
    OK(gpulend_shape(turned, 2, extents, NULL));
    EXPECT(extents[0] == 3 && extents[1] == 2);
    OK(gpulend_free(turned));
    REFUSED(114, gpulend_reshape(a, 1, three, &turned));
    OK(gpulend_transpose(a, &turned));
    OK(gpulend_copy_to_host(turned, back, sizeof back, 0));
    EXPECT(back[0] == 1 && back[1] == 4 && back[2] == 2);
    OK(gpulend_free(turned));
    OK(gpulend_view(a, GPULEND_INT32, &turned));
    EXPECT(info_of(turned).dtype == GPULEND_INT32);
    OK(gpulend_free(turned));
    OK(gpulend_readonly(a, &turned));
    EXPECT(info_of(turned).flags & GPULEND_READONLY);
    REFUSED(302, gpulend_copy(b, turned, 0));
    OK(gpulend_free(turned));

    float seven = 7;
    OK(gpulend_fill(b, &seven, sizeof seven, 0));
    OK(gpulend_copy_to_host(b, back, sizeof back, 0));
    for (int i = 0; i < 6; i++) EXPECT(back[i] == 7);
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_copy_from_host(a, numbers, 20, 0));
    REFUSED(404, gpulend_copy_from_host(a, (const void *)16, sizeof numbers, 0));
    OK(gpulend_free(b));
    OK(gpulend_free(a));
    REFUSED(GPULEND_RELEASED, gpulend_free(a));
    /* Its place is given to the next, and the old handle does not lead there. */
    OK(gpulend_zeros(0, GPULEND_FLOAT32, 2, shape, 0, &part));
    EXPECT((part & 0xffffff) == (a & 0xffffff) && part != a);
    REFUSED(GPULEND_RELEASED, gpulend_fill(a, &seven, sizeof seven, 0));
    REFUSED(GPULEND_RELEASED, gpulend_free(a));
    OK(gpulend_release(part));
}

static void pool(void)
{
    gpulend_pool_info info;
    info.size = sizeof info;
    uint64_t address, again, given;
    gpulend_stream stream;
    OK(gpulend_stream_create(0, 0, &stream));
    OK(gpulend_pool_trim(0, 0, NULL));
    OK(gpulend_pool_reset_peak(0));
    OK(gpulend_pool(0, &info));
    uint64_t before = info.live, blocks = info.blocks;
    EXPECT(info.size == sizeof info && info.limit == 0 && info.live + info.cached == info.reserved);
    OK(gpulend_pool_allocate(5000, stream, &address));
    OK(gpulend_pool(0, &info));
    EXPECT(info.live == before + 5120 && info.blocks == blocks + 1 && info.segments > 0 && info.peak >= info.live);
    gpulend_passport passport;
    passport.size = sizeof passport;
    OK(gpulend_describe(address + 4999, &passport));
    EXPECT(passport.known == GPULEND_KNOWN_POOL_BLOCK && passport.base == address && passport.bytes == 5120);

    /* A freed block is kept for its stream, and its address is refused. */
    OK(gpulend_pool_free(address));
    REFUSED(406, gpulend_describe(address, &passport));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_pool_free(address));
    EXPECT(strstr(gpulend_last_error(), "gpulend_pool_allocate"));
    OK(gpulend_pool_allocate(5000, stream, &again));
    EXPECT(again == address);
    OK(gpulend_pool_free(again));

    /* The memory of a lease is not freed like this. */
    const int64_t shape[1] = {1000};
    gpulend_lease lease;
    OK(gpulend_zeros(0, GPULEND_UINT8, 1, shape, stream, &lease));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_pool_free(info_of(lease).address));
    OK(gpulend_free(lease));

    OK(gpulend_pool_set_limit(0, 1 << 20));
    REFUSED(GPULEND_OUT_OF_DEVICE_MEMORY, gpulend_pool_allocate(1 << 25, 0, &address));
    EXPECT(strstr(gpulend_last_error(), "of at most 1048576"));
    OK(gpulend_pool(0, &info));
    EXPECT(info.limit == 1 << 20);
    OK(gpulend_pool_set_limit(0, 0));
    OK(gpulend_pool_allocate(1 << 25, 0, &address));
    OK(gpulend_pool_free(address));
    OK(gpulend_pool_trim(0, 0, &given));
    EXPECT(given >= 1 << 25);
    REFUSED(916, gpulend_pool(200, &info));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_pool_trim(-7, 0, NULL));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_pool_allocate(8, 0, NULL));
    OK(gpulend_stream_free(stream));
}

static volatile int deleted;
static uint64_t deleted_address, deleted_bytes;

static void count_deletion(void *context, uint64_t address, uint64_t bytes)
{
    EXPECT(context == &deleted_address);
    deleted_address = address;
    deleted_bytes = bytes;
    deleted++;
}

static void wrapping(void)
{
    static double numbers[4] = {1, 2, 3, 4};
    const int64_t shape[1] = {2}, strides[1] = {2};
    gpulend_claim claim;
    memset(&claim, 0, sizeof claim);
    claim.size = sizeof claim;
    claim.address = (uint64_t)(uintptr_t)numbers;
    claim.shape = shape;
    claim.strides = strides;
    claim.ndim = 1;
    claim.device = GPULEND_ANY_DEVICE;
    claim.dtype = GPULEND_FLOAT64;
    gpulend_lease lease;
    deleted = 0;
    OK(gpulend_wrap(&claim, count_deletion, &deleted_address, &lease));
    double back[2];
    OK(gpulend_copy_to_host(lease, back, sizeof back, 0));
    EXPECT(back[0] == 1 && back[1] == 3);
    uint64_t address;
    OK(gpulend_host_pointer(lease, &address));
    EXPECT(address == claim.address);
    EXPECT(info_of(lease).device == GPULEND_HOST && info_of(lease).flags & GPULEND_HOST_VISIBLE);
    OK(gpulend_free(lease));
    EXPECT(deleted == 1 && deleted_address == claim.address && deleted_bytes == 16);

    /* Refused: the memory is still the caller's. */
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_wrap(&claim, NULL, NULL, &lease));
    claim.address = (uint64_t)1 << 60;
    REFUSED(404, gpulend_wrap(&claim, count_deletion, &deleted_address, &lease));
    claim.address = (uint64_t)(uintptr_t)numbers;
    claim.device = 0;
    REFUSED(407, gpulend_wrap(&claim, count_deletion, &deleted_address, &lease));
    claim.flags = 1u << 31;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_wrap(&claim, count_deletion, &deleted_address, &lease));
    claim.size = 8;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_wrap(&claim, count_deletion, &deleted_address, &lease));
    EXPECT(deleted == 1);

    /* Memory of a GPU, which is another lease's here. */
    gpulend_lease owner;
    const int64_t length[1] = {100};
    OK(gpulend_zeros(0, GPULEND_FLOAT64, 1, length, 0, &owner));
    OK(gpulend_pointer(owner, 0, &address));
    gpulend_stream stream;
    gpulend_event event;
    OK(gpulend_stream_create(0, 0, &stream));
    OK(gpulend_event_record(0, &event));
    memset(&claim, 0, sizeof claim);
    claim.size = sizeof claim;
    claim.address = address;
    claim.shape = length;
    claim.ndim = 1;
    claim.device = GPULEND_ANY_DEVICE;
    claim.dtype = GPULEND_FLOAT64;
    claim.ready_on = event;
    OK(gpulend_wrap(&claim, count_deletion, &deleted_address, &lease));
    EXPECT(info_of(lease).device == 0 && !!(info_of(lease).flags & GPULEND_SIMULATED) == simulated);
    OK(gpulend_pointer(lease, stream, &address));
    EXPECT(address == claim.address);
    OK(gpulend_used_on(lease, stream));
    gpulend_passport passport;
    passport.size = sizeof passport;
    OK(gpulend_describe(address + 8, &passport));
    EXPECT(passport.address == address + 8 && passport.base <= address && passport.device == 0);
    EXPECT(passport.bytes >= 800 && passport.buffer_id && passport.memory == GPULEND_MEMORY_DEVICE);
    EXPECT(passport.known == GPULEND_KNOWN_POOL_BLOCK);
    OK(gpulend_free(lease));
    wait_for(&deleted, 2);
    EXPECT(deleted_bytes == 800);
    const int64_t longer[1] = {1 << 24};
    claim.shape = longer;
    REFUSED(408, gpulend_wrap(&claim, count_deletion, &deleted_address, &lease));
    OK(gpulend_free(owner));
    OK(gpulend_stream_free(stream));
    OK(gpulend_event_free(event));

    OK(gpulend_describe((uint64_t)(uintptr_t)numbers, &passport));
    EXPECT(passport.known == GPULEND_KNOWN_HOST && passport.device == GPULEND_HOST && passport.buffer_id == 0);
    REFUSED(404, gpulend_describe((uint64_t)1 << 60, &passport));
}

static void streams(void)
{
    gpulend_stream stream, other, legacy;
    gpulend_event event;
    uint64_t number;
    int32_t device = -1, done = -1;
    OK(gpulend_stream_create(0, 0, &stream));
    OK(gpulend_stream_create(GPULEND_ANY_DEVICE, GPULEND_BLOCKING, &other));
    OK(gpulend_stream_number(stream, &number, &device));
    EXPECT(number > 2 && device == 0);
    OK(gpulend_stream_number(0, &number, NULL));
    EXPECT(number == 1);
    OK(gpulend_stream_enter(stream));
    uint64_t current;
    OK(gpulend_stream_number(0, &current, NULL));
    OK(gpulend_stream_number(stream, &number, NULL));
    EXPECT(current == number);
    const int64_t shape[1] = {1000};
    gpulend_lease lease;
    OK(gpulend_zeros(0, GPULEND_UINT8, 1, shape, other, &lease));
    OK(gpulend_stream_leave(stream));
    OK(gpulend_event_record(other, &event));
    OK(gpulend_stream_wait(stream, event));
    OK(gpulend_event_synchronize(event));
    OK(gpulend_event_done(event, &done));
    EXPECT(done == 1);
    OK(gpulend_stream_synchronize(stream));
    OK(gpulend_stream_done(stream, &done));
    EXPECT(done == 1);
    OK(gpulend_stream_wrap(0, 1, &legacy));
    OK(gpulend_used_on(lease, legacy));
    OK(gpulend_stream_synchronize(legacy));
    OK(gpulend_synchronize(0));
    OK(gpulend_free(lease));
    REFUSED(GPULEND_OTHER_KIND, gpulend_stream_free(event));
    OK(gpulend_event_free(event));
    REFUSED(GPULEND_ENDED, gpulend_event_synchronize(event));
    OK(gpulend_stream_free(legacy));
    OK(gpulend_stream_free(other));
    OK(gpulend_stream_free(stream));
    REFUSED(GPULEND_ENDED, gpulend_stream_synchronize(stream));
}

static int produced;

static void produced_deleter(struct DLManagedTensor *tensor)
{
    produced++;
    free(tensor->dl_tensor.data);
    free(tensor);
}

static void exchange(void)
{
    static int64_t shape[1] = {4};
    struct DLManagedTensor *mine = (struct DLManagedTensor *)calloc(1, sizeof *mine);
    EXPECT(mine);
    mine->dl_tensor.data = calloc(4, 4);
    mine->dl_tensor.device.device_type = 1;
    mine->dl_tensor.ndim = 1;
    mine->dl_tensor.dtype.bits = 32;
    mine->dl_tensor.dtype.lanes = 1;
    mine->dl_tensor.shape = shape;
    mine->deleter = produced_deleter;
    gpulend_lease lease;
    OK(gpulend_from_dlpack(mine, 0, &lease));
    EXPECT(info_of(lease).dtype == GPULEND_INT32 && info_of(lease).bytes == 16);
    struct DLManagedTensorVersioned *theirs;
    OK(gpulend_to_dlpack_versioned(lease, 0, 0, &theirs));
    EXPECT(theirs->major == 1 && theirs->dl_tensor.device.device_type == 1 && theirs->dl_tensor.strides[0] == 1);
    OK(gpulend_free(lease));
    EXPECT(produced == 0);
    gpulend_lease again;
    OK(gpulend_from_dlpack_versioned(theirs, 0, &again));
    OK(gpulend_free(again));
    EXPECT(produced == 1);

    /* A refused tensor is released too. */
    mine = (struct DLManagedTensor *)calloc(1, sizeof *mine);
    EXPECT(mine);
    mine->dl_tensor.device.device_type = 77;
    mine->deleter = produced_deleter;
    REFUSED(903, gpulend_from_dlpack(mine, 0, &lease));
    EXPECT(produced == 2);
    REFUSED(201, gpulend_from_dlpack(NULL, 0, &lease));
    REFUSED(201, gpulend_from_dlpack_versioned(NULL, 0, &lease));

    gpulend_lease device, frozen;
    OK(gpulend_zeros(0, GPULEND_INT32, 1, shape, 0, &device));
    struct DLManagedTensor *legacy;
    OK(gpulend_to_dlpack(device, 0, GPULEND_AS_CUDA, &legacy));
    EXPECT(legacy->dl_tensor.device.device_type == 2);
    legacy->deleter(legacy);
    OK(gpulend_to_dlpack(device, 0, 0, &legacy));
    EXPECT(legacy->dl_tensor.device.device_type == (simulated ? 1 : 2));
    legacy->deleter(legacy);
    OK(gpulend_readonly(device, &frozen));
    REFUSED(301, gpulend_to_dlpack(frozen, 0, 0, &legacy));
    OK(gpulend_free(frozen));
    OK(gpulend_free(device));
}

static void ledger(void)
{
    const int64_t shape[1] = {5};
    gpulend_lease lease;
    uint64_t before = live(), needed, again;
    OK(gpulend_allocate(GPULEND_HOST, GPULEND_INT16, 1, shape, 0, &lease));
    EXPECT(live() == before + 1);
    OK(gpulend_ledger(NULL, 0, &needed));
    char *text = (char *)malloc(needed + 100);
    OK(gpulend_ledger(text, needed + 100, &again));
    EXPECT(strstr(text, "a C program") && strstr(text, "10 bytes"));
    free(text);
    OK(gpulend_release(lease));
    EXPECT(live() == before);
}

static void tickets(void)
{
    const int64_t shape[2] = {3, 4};
    uint8_t ticket[GPULEND_TICKET_BYTES];
    uint64_t before = live(), size = 0;
    int32_t ended = -1;
    gpulend_lease lease, plain, claimed;
    OK(gpulend_allocate_shared(GPULEND_HOST, GPULEND_INT32, 2, shape, 0, &lease));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_ticket(lease, 0, 5, 0, ticket, 10, &size));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_ticket(lease, 0, -1, 0, ticket, sizeof ticket, &size));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_ticket(lease, 0, 5, 0, NULL, sizeof ticket, &size));
    OK(gpulend_ticket(lease, 1, 5, GPULEND_READONLY, ticket, sizeof ticket, &size));
    EXPECT(size == 104 + 2 * 2 * sizeof(int64_t));
    OK(gpulend_ticket_claim(ticket, size, &claimed));
    EXPECT(info_of(claimed).address == info_of(lease).address);
    EXPECT(info_of(claimed).flags & GPULEND_READONLY);
    REFUSED(1104, gpulend_ticket_claim(ticket, size, &plain));
    REFUSED(1101, gpulend_ticket_claim(ticket, size - 1, &plain));
    OK(gpulend_free(claimed));
    OK(gpulend_ticket(lease, 0, 5, 0, ticket, sizeof ticket, &size));
    OK(gpulend_ticket_withdraw(ticket, size, &ended));
    EXPECT(ended == 1);
    OK(gpulend_ticket_withdraw(ticket, size, &ended));
    EXPECT(ended == 0);
    OK(gpulend_allocate(GPULEND_HOST, GPULEND_INT32, 2, shape, 0, &plain));
    REFUSED(1109, gpulend_ticket(plain, 0, 5, 0, ticket, sizeof ticket, &size));
    OK(gpulend_free(plain));
    OK(gpulend_free(lease));
    EXPECT(live() == before);
}

int main(void)
{
    about();
    ledger();
    tickets();
    devices();
    uint64_t before = live();
    copies();
    pool();
    wrapping();
    streams();
    exchange();
    /* What was sliced is let go by a thread of gpulend's, when the GPU is done with it. */
    for (int turn = 0; turn < 10000 && live() != before; turn++) OK(gpulend_synchronize(0));
    EXPECT(live() == before);
    puts("done");
    return 0;
}
