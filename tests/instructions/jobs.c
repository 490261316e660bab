/* The jobs of C: run under callgrind by `counting.py`, with `count.c`. */
#define _POSIX_C_SOURCE 200809L
#include <gpulend.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void count_start(void);
void count_stop(const char *name);

enum { CALLS = 20, WARM_UP = 5, ROUNDS = 3, MOST = 12 };

/* What dlpack.h defines. */
struct tensor {
    struct { uint32_t major, minor; } version;
    void *manager_ctx;
    void (*deleter)(struct tensor *);
};

static int64_t shape[2] = {4, 4};
static gpulend_claim claim = {.size = sizeof claim, .shape = shape, .ndim = 2, .dtype = GPULEND_FLOAT32};
static gpulend_lease memory[MOST], made[CALLS];
static struct DLManagedTensorVersioned *lent[CALLS];
static gpulend_kernel kernel;
static gpulend_argument arguments[MOST];
static uint64_t many;
static gpulend_launch_shape one = {.size = sizeof one, .grid = {1, 1, 1}, .block = {32, 1, 1}};

static void must(int status, const char *what)
{
    if (status) {
        fprintf(stderr, "%s failed: %d (%s)\n", what, status, gpulend_last_error());
        exit(1);
    }
}

#define MUST(call) must((int)(call), #call)

static void forget(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    (void)address;
    (void)bytes;
}

static void wrap_one(int i) { MUST(gpulend_wrap(&claim, forget, NULL, &made[i])); }
static void free_one(int i) { MUST(gpulend_free(made[i])); }
static void release_one(int i) { MUST(gpulend_release(made[i])); }

static void describe_one(int i)
{
    gpulend_passport passport = {.size = sizeof passport};
    (void)i;
    MUST(gpulend_describe(claim.address, &passport));
}

static void lend_one(int i) { MUST(gpulend_to_dlpack_versioned(memory[0], 0, 0, &lent[i])); }

static void delete_one(int i)
{
    struct tensor *tensor = (struct tensor *)lent[i];
    tensor->deleter(tensor);
}

static void launch_one(int i)
{
    (void)i;
    MUST(gpulend_launch(kernel, &one, arguments, many));
}

/* Deleters of memory of a GPU are called by another thread. */
static void settle(uint64_t live)
{
    uint64_t left = live + 1;
    struct timespec pause = {0, 1000000};
    MUST(gpulend_synchronize(0));
    for (int i = 0; i < 20000; i++) {
        MUST(gpulend_live(&left));
        if (left <= live) return;
        nanosleep(&pause, NULL);
    }
    fprintf(stderr, "%llu leases are left\n", (unsigned long long)(left - live));
    exit(1);
}

static void run(void (*call)(int), const char *name)
{
    if (name) count_start();
    for (int i = 0; i < CALLS; i++) call(i);
    if (name) count_stop(name);
}

/* Counts two jobs in turns, of which the second undoes the first. A job without a name is not counted. */
static void count(void (*call)(int), const char *name, void (*undo)(int), const char *undone)
{
    uint64_t live;
    MUST(gpulend_live(&live));
    for (int round = 0; round < WARM_UP + ROUNDS; round++) {
        run(call, round >= WARM_UP ? name : NULL);
        if (undo) run(undo, round >= WARM_UP ? undone : NULL);
        settle(live);
    }
}

static const char *read(const char *path)
{
    static char text[1 << 14];
    FILE *file = fopen(path, "r");
    if (!file || fread(text, 1, sizeof text - 1, file) == 0) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return text;
}

/* jobs kernels.ptx */
int main(int argc, char **argv)
{
    static const char *const names[] = {"one", "three", "twelve"};
    static const char *const jobs[] = {"launch, 1 lease", "launch, 3 leases", "launch, 12 leases"};
    static const uint64_t arities[] = {1, 3, 12};
    gpulend_module module;
    gpulend_source source = {.size = sizeof source, .text = read(argc > 1 ? argv[1] : "kernels.ptx")};
    MUST(gpulend_compile(&source, &module));
    MUST(gpulend_stream_create(0, 0, &one.stream));
    for (int i = 0; i < MOST; i++) {
        MUST(gpulend_zeros(0, GPULEND_FLOAT32, 2, shape, one.stream, &memory[i]));
        arguments[i] = gpulend_lease_argument(memory[i]);
    }
    /* First: what is lent to others is used on other streams. */
    for (int i = 0; i < 3; i++) {
        many = arities[i];
        MUST(gpulend_kernel_get(module, names[i], &kernel));
        count(launch_one, jobs[i], NULL, NULL);
    }
    MUST(gpulend_pointer(memory[0], 0, &claim.address));
    count(wrap_one, "wrap, GPU", free_one, "wrap, GPU, freed");
    count(wrap_one, NULL, release_one, "release, GPU");
    count(describe_one, "describe, GPU", NULL, NULL);
    count(lend_one, "lend DLPack, GPU", delete_one, "lend DLPack, GPU, deleted");
    return 0;
}
