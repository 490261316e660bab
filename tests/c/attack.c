/* Calls with handles that are random, stale, of another kind or freed twice, NULL places and absurd sizes, by many
 * threads that share their handles: nothing crashes, each refusal has a message of its own, nothing is left.
 *
 * attack [calls [seed]]
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <threads.h>

enum { THREADS = 16, LEASES = 64, OTHERS = 8, KINDS = 6, SHARED = LEASES + OTHERS * (KINDS - 1) };

/* A refusal whose message tells whether a later one came. */
static const uint64_t MARK = 0x4242424242424242;

/* Letters of handles: many leases are kept, and some of each other kind. */
static const char LETTERS[KINDS + 1] = "LSEMKT";
static _Atomic uint64_t shared[SHARED];
static atomic_ulong refusals, successes, deletions, wraps, launches;
static unsigned long calls = 1000000;
static uint64_t seed = 1;
static float memory[1024];

typedef struct {
    uint64_t state;
} Dice;

static uint64_t roll(Dice *dice)
{
    dice->state ^= dice->state << 13;
    dice->state ^= dice->state >> 7;
    dice->state ^= dice->state << 17;
    return dice->state;
}

static uint64_t below(Dice *dice, uint64_t limit) { return roll(dice) % limit; }

static _Atomic uint64_t *place_for(Dice *dice, char letter)
{
    uint64_t kind = (uint64_t)(strchr(LETTERS, letter) - LETTERS);
    return &shared[kind == 0 ? below(dice, LEASES) : LEASES + OTHERS * (kind - 1) + below(dice, OTHERS)];
}

/* A handle that was of a kind, and may be freed by anybody meanwhile. */
static uint64_t known_handle(Dice *dice, char letter) { return atomic_load(place_for(dice, letter)); }

static uint64_t any_handle(Dice *dice)
{
    uint64_t known = known_handle(dice, LETTERS[below(dice, 2) ? 0 : below(dice, KINDS)]);
    switch (below(dice, 8)) {
    case 0: return roll(dice);
    case 1: return below(dice, 4);
    case 2: return known ^ (uint64_t)1 << below(dice, 64); /* One bit off. */
    case 3: return (known & 0xffffffffffffff) | ("LSEMKTxX"[below(dice, 8)] + (uint64_t)0) << 56;
    default: return known; /* Alive, or freed by anybody meanwhile. */
    }
}

static int64_t any_extent(Dice *dice)
{
    /* What is large is larger than any address space: some systems promise a terabyte, and kill who uses it. */
    static const int64_t extents[] = {0, 1, 3, 4, 7, -1, -5, INT64_MAX, INT64_MIN, (int64_t)1 << 55, 300};
    return extents[below(dice, sizeof extents / sizeof *extents)];
}

static int32_t any_int(Dice *dice)
{
    static const int32_t numbers[] = {0, 0, 0, 0, 1, 2, 3, -1, -2, -3, 64, 65, 255, 256, INT32_MAX, INT32_MIN};
    return numbers[below(dice, sizeof numbers / sizeof *numbers)];
}

static gpulend_dtype any_dtype(Dice *dice)
{
    return below(dice, 4) ? GPULEND_FLOAT32 : (gpulend_dtype)roll(dice);
}

static void note_deletion(void *context, uint64_t address, uint64_t bytes)
{
    (void)address;
    (void)bytes;
    atomic_fetch_add((atomic_ulong *)context, 1);
}

static gpulend_status wrap_something(Dice *dice, gpulend_lease *place)
{
    int64_t shape[2] = {any_extent(dice), any_extent(dice)};
    int64_t strides[2] = {any_extent(dice), 1};
    gpulend_claim claim = {0};
    claim.size = below(dice, 8) ? sizeof claim : roll(dice) >> below(dice, 64);
    claim.address = below(dice, 4) ? (uint64_t)(uintptr_t)memory : below(dice, 4096);
    claim.shape = below(dice, 8) ? shape : NULL;
    claim.strides = below(dice, 2) ? strides : NULL;
    claim.ndim = below(dice, 4) ? (int32_t)below(dice, 3) : any_int(dice);
    claim.ndim = claim.ndim > 2 && claim.ndim <= GPULEND_MOST_AXES ? 2 : claim.ndim;
    claim.device = below(dice, 2) ? GPULEND_HOST : any_int(dice);
    claim.dtype = any_dtype(dice);
    claim.flags = GPULEND_READONLY | (below(dice, 2) ? GPULEND_UNOWNED : 0) | (below(dice, 16) ? 0 : 1u << 30);
    claim.ready_on = below(dice, 2) ? 0 : any_handle(dice);
    gpulend_deleter deleter = below(dice, 2) ? note_deletion : NULL;
    gpulend_status status = gpulend_wrap(below(dice, 16) ? &claim : NULL, deleter, &deletions, place);
    if (status == GPULEND_OK && deleter) atomic_fetch_add(&wraps, 1);
    return status;
}

static gpulend_status export_something(Dice *dice, gpulend_lease *place)
{
    struct DLManagedTensor *legacy = NULL;
    struct DLManagedTensorVersioned *versioned = NULL;
    uint64_t lease = any_handle(dice), stream = below(dice, 2) ? 0 : any_handle(dice);
    uint32_t flags = below(dice, 2) ? GPULEND_AS_CUDA : (uint32_t)below(dice, 4);
    gpulend_status status;
    if (below(dice, 2)) {
        status = gpulend_to_dlpack(lease, stream, flags, below(dice, 8) ? &legacy : NULL);
        return legacy ? gpulend_from_dlpack(legacy, below(dice, 2) ? 0 : any_handle(dice), place) : status;
    }
    status = gpulend_to_dlpack_versioned(lease, stream, flags, below(dice, 8) ? &versioned : NULL);
    return versioned ? gpulend_from_dlpack_versioned(versioned, below(dice, 2) ? 0 : any_handle(dice), place) : status;
}

/* Whatever comes, it does nothing. */
static const char PTX[] = ".version 6.3\n.target sm_75\n.address_size 64\n.global .align 4 .u32 counter;\n"
                          ".visible .entry nothing(.param .u64 x, .param .u32 n) { ret; }\n";

static gpulend_status compile_something(Dice *dice, gpulend_module *place)
{
    static const char *const texts[] = {NULL, NULL};
    gpulend_source source = {0};
    source.size = below(dice, 8) ? sizeof source : below(dice, sizeof source);
    source.text = below(dice, 8) ? PTX : below(dice, 2) ? "\x7f" "ELF" : NULL;
    source.bytes = below(dice, 4) ? 0 : below(dice, 2) ? sizeof PTX : UINT64_MAX;
    source.options = below(dice, 8) ? NULL : texts;
    source.option_count = below(dice, 8) ? 0 : (uint32_t)roll(dice);
    source.device = below(dice, 4) ? 0 : any_int(dice);
    source.compiler = (uint32_t)below(dice, 4);
    return gpulend_compile(below(dice, 16) ? &source : NULL, place);
}

static gpulend_status launch_something(Dice *dice, uint64_t kernel)
{
    gpulend_argument arguments[3];
    for (int i = 0; i < 3; i++) {
        gpulend_argument argument = {(uint32_t)below(dice, 8), 0, any_handle(dice)};
        if (argument.kind == GPULEND_ARGUMENT_BYTES) argument.value = 0;
        arguments[i] = argument;
    }
    if (below(dice, 2)) kernel = known_handle(dice, 'K');
    if (below(dice, 2)) arguments[0] = gpulend_lease_argument(known_handle(dice, 'L'));
    if (below(dice, 2)) arguments[1] = gpulend_int_argument(any_int(dice));
    const gpulend_argument *first = below(dice, 8) ? arguments : NULL;
    uint64_t count = below(dice, 4) ? 2 : below(dice, 2) ? below(dice, 4) : roll(dice) | (uint64_t)1 << 40;
    uint64_t stream = below(dice, 2) ? 0 : any_handle(dice);
    if (below(dice, 4) == 0) return gpulend_forall(kernel, below(dice, 2) ? below(dice, 100) : roll(dice), first, count, stream);
    gpulend_launch_shape shape = {sizeof shape, {1, 1, 1}, {1, 1, 1}, 0, 0, stream};
    if (below(dice, 4) == 0) shape.size = below(dice, sizeof shape);
    if (below(dice, 4) == 0) shape.grid[below(dice, 3)] = (uint32_t)below(dice, 3);
    if (below(dice, 4) == 0) shape.block[below(dice, 3)] = (uint32_t)roll(dice);
    if (below(dice, 4) == 0) shape.shared = (uint32_t)roll(dice);
    if (below(dice, 4) == 0) shape.flags = (uint32_t)roll(dice);
    gpulend_status status = gpulend_launch(kernel, below(dice, 8) ? &shape : NULL, first, count);
    if (status == GPULEND_OK) atomic_fetch_add(&launches, 1);
    return status;
}

static gpulend_status use_module(Dice *dice, uint64_t a, uint64_t *place, char *text, uint64_t room)
{
    static const char *const names[] = {"nothing", "counter", "nothing<int>", "\xff", "", NULL};
    const char *name = names[below(dice, 3) ? below(dice, 2) : below(dice, 6)];
    gpulend_kernel_info info = {.size = below(dice, 4) ? sizeof info : below(dice, sizeof info)};
    double milliseconds;
    uint64_t which = below(dice, 12);
    if (below(dice, 2)) a = known_handle(dice, "MMMMMKKKSTTK"[which]);
    switch (which) {
    case 0: return gpulend_module_names(a, text, room, NULL);
    case 1: return gpulend_module_variables(a, text, room, NULL);
    case 2: return gpulend_module_warnings(a, text, room, NULL);
    case 3: return gpulend_module_variable(a, name, place);
    case 4: return gpulend_kernel_get(a, name, place);
    case 5: return gpulend_kernel_signature(a, text, room, NULL);
    case 6: return gpulend_kernel_attributes(a, below(dice, 8) ? &info : NULL);
    case 7: return gpulend_kernel_free(a);
    case 8: return below(dice, 4) ? gpulend_timer_start(a, place) : gpulend_timer_free(a);
    case 9: return gpulend_timer_stop(a);
    case 10: return gpulend_timer_milliseconds(a, below(dice, 8) ? &milliseconds : NULL);
    default: return below(dice, 8) ? launch_something(dice, a) : gpulend_module_free(a);
    }
}

/* Blocks of the pool. */
static gpulend_status use_pool(Dice *dice, uint64_t stream)
{
    uint64_t address = 0;
    gpulend_pool_info info = {0};
    info.size = below(dice, 4) ? sizeof info : below(dice, sizeof info);
    switch (below(dice, 5)) {
    case 0: return gpulend_pool(any_int(dice), below(dice, 8) ? &info : NULL);
    case 1: return gpulend_pool_trim(below(dice, 2) ? 0 : any_int(dice), roll(dice), NULL);
    case 2: return gpulend_pool_free(roll(dice));
    case 3: return below(dice, 8) ? gpulend_pool_reset_peak(any_int(dice)) : gpulend_pool_allocate(8, stream, NULL);
    default: break;
    }
    uint64_t bytes = below(dice, 16) ? below(dice, 1 << 16) : roll(dice);
    gpulend_status status = gpulend_pool_allocate(bytes, stream, &address);
    return status ? status : gpulend_pool_free(address);
}

/* One call of a function by its number; what it makes goes to `made`. */
static gpulend_status call(Dice *dice, uint64_t *made)
{
    static char text[512];
    int64_t shape[2] = {any_extent(dice), any_extent(dice)}, written[GPULEND_MOST_AXES];
    int32_t small, ndim = (int32_t)below(dice, 3);
    const int64_t *extents = below(dice, 8) ? shape : NULL;
    uint64_t *place = below(dice, 8) ? made : NULL, number;
    uint64_t a = any_handle(dice), b = any_handle(dice), stream = below(dice, 2) ? 0 : b;
    gpulend_lease_info info = {0};
    gpulend_passport passport = {0};
    gpulend_device_info device = {0};
    info.size = passport.size = device.size = below(dice, 4) ? 288 : below(dice, 8192) * below(dice, 60);
    /* A size that is larger than the struct is a promise that there is room. */
    if (info.size > sizeof info && info.size <= 4096) info.size = sizeof info;
    if (passport.size > sizeof passport && passport.size <= 4096) passport.size = sizeof passport;
    if (device.size > sizeof device && device.size <= 4096) device.size = sizeof device;
    switch (below(dice, 50)) {
    case 0: case 1: case 2: {
        int32_t on = below(dice, 3) ? 0 : any_int(dice);
        int32_t axes = below(dice, 8) ? ndim : any_int(dice);
        axes = axes > 2 && axes <= GPULEND_MOST_AXES ? 2 : axes;
        return gpulend_allocate(on, any_dtype(dice), axes, extents, stream, place);
    }
    case 3: return gpulend_zeros(GPULEND_HOST, any_dtype(dice), ndim, extents, stream, place);
    case 4: case 5: return wrap_something(dice, place);
    case 6: case 7: return gpulend_free(a);
    case 8: return gpulend_release(a);
    case 9: return gpulend_info(a, below(dice, 8) ? &info : NULL);
    case 10: return gpulend_shape(a, any_int(dice), written, below(dice, 2) ? written : NULL);
    case 11: return gpulend_slice(a, any_int(dice), any_extent(dice), any_extent(dice), any_extent(dice), place);
    case 12: return gpulend_reshape(a, ndim, extents, place);
    case 13: return gpulend_transpose(a, place);
    case 14: return gpulend_view(a, any_dtype(dice), place);
    case 15: return gpulend_readonly(a, place);
    case 16: return gpulend_pointer(a, stream, below(dice, 8) ? &number : NULL);
    case 17: return gpulend_host_pointer(a, below(dice, 8) ? &number : NULL);
    case 18: return gpulend_used_on(a, stream);
    case 19: {
        uint64_t address = below(dice, 2) ? roll(dice) : (uint64_t)(uintptr_t)memory;
        return gpulend_describe(address, below(dice, 8) ? &passport : NULL);
    }
    case 20: {
        const void *data = below(dice, 2) ? (const void *)8 : NULL;
        return gpulend_copy_from_host(a, data, roll(dice) >> below(dice, 64), stream);
    }
    case 21: return gpulend_copy_to_host(a, NULL, below(dice, 2) ? 4 : roll(dice), stream);
    case 22: return gpulend_copy(a, b, 0);
    case 23: return gpulend_fill(a, below(dice, 8) ? memory : NULL, below(dice, 2) ? 4 : roll(dice), stream);
    case 24: return export_something(dice, place);
    case 25: return gpulend_from_dlpack(NULL, stream, place);
    case 26: return gpulend_stream_create(below(dice, 2) ? 0 : any_int(dice), (uint32_t)below(dice, 3) << 8, place);
    case 27: return gpulend_stream_wrap(any_int(dice), below(dice, 3), place);
    case 28: return gpulend_stream_number(a, below(dice, 2) ? &number : NULL, below(dice, 2) ? &small : NULL);
    case 29: {
        gpulend_status status = gpulend_stream_enter(a);
        /* It may be freed meanwhile, and is then left with the thread. */
        return status ? status : gpulend_stream_leave(a);
    }
    case 30: return gpulend_stream_leave(a);
    case 31:
        if (below(dice, 8) == 0) return gpulend_stream_synchronize(a);
        return gpulend_stream_done(a, below(dice, 2) ? &small : NULL);
    case 32: return gpulend_stream_wait(a, b);
    case 33: return gpulend_stream_free(a);
    case 34: return gpulend_event_record(a, place);
    case 35:
        if (below(dice, 8) == 0) return gpulend_event_synchronize(a);
        return gpulend_event_done(a, below(dice, 2) ? &small : NULL);
    case 36: return gpulend_event_free(a);
    case 37: {
        uint64_t room = below(dice, sizeof text), *needed = below(dice, 2) ? &number : NULL;
        return gpulend_dtype_name(any_dtype(dice), below(dice, 2) ? text : NULL, room, needed);
    }
    case 38: {
        gpulend_dtype *dtype = (gpulend_dtype *)(below(dice, 2) ? &small : NULL);
        return gpulend_dtype_parse(below(dice, 4) ? "\xff\xfe" : NULL, dtype);
    }
    case 39: return below(dice, 2) ? gpulend_set_compilers("/nowhere", NULL, NULL) : compile_something(dice, place);
    case 40: case 41: case 42: case 43: case 44: case 45: case 46: return use_module(dice, a, place, text, below(dice, sizeof text));
    case 47: return launch_something(dice, a);
    case 48: return use_pool(dice, stream);
    default:
        if (below(dice, 2)) return gpulend_live(NULL);
        return gpulend_device(any_int(dice), below(dice, 8) ? &device : NULL);
    }
}

static void let_go(uint64_t old)
{
    if (gpulend_free(old) && gpulend_stream_free(old) && gpulend_event_free(old) && gpulend_module_free(old) &&
        gpulend_kernel_free(old))
        (void)gpulend_timer_free(old);
}

static void *work(void *number)
{
    Dice dice = {(seed + (uintptr_t)number) * 0x9e3779b97f4a7c15 | 1};
    for (unsigned long done = 0; done < calls / THREADS; done++) {
        uint64_t made = 0;
        EXPECT(gpulend_free(MARK) == GPULEND_NO_HANDLE);
        gpulend_status status = call(&dice, &made);
        if (status == GPULEND_OK) {
            atomic_fetch_add(&successes, 1);
        } else {
            const char *message = gpulend_last_error();
            EXPECT(status > 100 && status != GPULEND_BUG);
            EXPECT(message[0] && !strstr(message, "0x4242424242424242"));
            atomic_fetch_add(&refusals, 1);
        }
        if (made) {
            /* Whatever was there before is freed, perhaps for the second time. */
            let_go(atomic_exchange(place_for(&dice, (char)(made >> 56)), made));
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count > 1) calls = strtoul(arguments[1], NULL, 0);
    if (count > 2) seed = strtoull(arguments[2], NULL, 0);
    OK(gpulend_synchronize(0));
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < SHARED; i++) {
        let_go(atomic_load(&shared[i]));
    }
    /* What was sliced last is let go by a thread of gpulend's, when the GPU is done with it; the ledger forgets it first. */
    for (int turn = 0; turn < 10000 && (live() || atomic_load(&deletions) != atomic_load(&wraps)); turn++) {
        OK(gpulend_synchronize(0));
        thrd_sleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    if (live()) {
        static char text[1 << 16];
        OK(gpulend_ledger(text, sizeof text, NULL));
        fputs(text, stderr);
    }
    EXPECT(live() == 0);
    EXPECT(atomic_load(&deletions) == atomic_load(&wraps));
    printf("%lu refused, %lu done, %lu wrapped and deleted, %lu launched\n", atomic_load(&refusals),
           atomic_load(&successes), atomic_load(&deletions), atomic_load(&launches));
    EXPECT(atomic_load(&refusals) > calls / 4 && atomic_load(&successes) > calls / 50);
    return 0;
}
