/* Kernels from C: compiled, launched, refused, timed, on GPU 0. Compiled as C11 and as C++17.
 *
 * kernels [clang [folders of NVRTC]]: where compilers lie that are not found by themselves.
 */
#include "check.h"

enum { COUNT = 1000 };

static const char SOURCE[] =
    "__device__ int counter = 3;\n"
    "__constant__ float table[2][3];\n"
    "struct Pair { float first; int second; };\n"
    "extern \"C\" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) c[i] = a[i] + b[i];\n"
    "}\n"
    "__global__ void count(unsigned char by) { atomicAdd(&counter, by); }\n"
    "__global__ void look(float *x) { x[threadIdx.x] = table[threadIdx.y][threadIdx.x]; }\n"
    "__global__ void take(Pair pair, double *x) { *x = pair.first * pair.second; }\n"
    "__global__ void raise(float *x, float by) { x[threadIdx.x] += by; }\n"
    "template <typename T> __global__ void scale(T *x, T by) { x[threadIdx.x] *= by; }\n"
    "__global__ void beyond(float *x, int n) { x[n + threadIdx.x] = 1; }\n";

static int simulated;

static gpulend_module compile(const char *text)
{
    gpulend_source source;
    memset(&source, 0, sizeof source);
    source.size = sizeof source;
    source.text = text;
    gpulend_module module;
    OK(gpulend_compile(&source, &module));
    return module;
}

static gpulend_kernel kernel_of(gpulend_module module, const char *name)
{
    gpulend_kernel kernel;
    OK(gpulend_kernel_get(module, name, &kernel));
    return kernel;
}

static gpulend_lease array(gpulend_dtype dtype, int64_t count)
{
    gpulend_lease lease;
    OK(gpulend_zeros(0, dtype, 1, &count, 0, &lease));
    return lease;
}

static gpulend_launch_shape shape_of(uint32_t blocks, uint32_t threads)
{
    gpulend_launch_shape shape = {sizeof shape, {blocks, 1, 1}, {threads, 1, 1}, 0, 0, 0};
    return shape;
}

static void says(const char *words)
{
    if (!strstr(gpulend_last_error(), words)) {
        fprintf(stderr, "no %s in: %s\n", words, gpulend_last_error());
        exit(1);
    }
}

static void sources(void)
{
    char text[600];
    uint64_t needed;
    gpulend_source source;
    gpulend_module module;
    gpulend_kernel kernel;
    memset(&source, 0, sizeof source);
    source.size = sizeof source;
    source.text = "#include \"mine.h\"\n__global__ void broken(float *x) {\n    *x = missing;\n}\n";
    source.file = "mine.cu";
    const char *names[1] = {"mine.h"}, *texts[1] = {"#define SEVEN 7\n"}, *options[1] = {"-DOFFSET=1"};
    source.header_names = names;
    source.header_texts = texts;
    source.header_count = 1;
    REFUSED(704, gpulend_compile(&source, &module));
    /* clang says mine.cu:3, NVRTC mine.cu(3); both show the line. */
    says("mine.cu");
    says("*x = missing");
    /* As many bytes as are said, and no NUL. */
    const char given[] = "#include \"mine.h\"\n__global__ void right(int *x) { *x = SEVEN + OFFSET; }garbage";
    source.text = given;
    source.bytes = sizeof given - sizeof "garbage";
    source.options = options;
    source.option_count = 1;
    OK(gpulend_compile(&source, &module));
    OK(gpulend_module_names(module, text, sizeof text, &needed));
    EXPECT(strcmp(text, "right\n") == 0 && needed == 7);
    OK(gpulend_module_warnings(module, text, sizeof text, &needed));
    EXPECT(text[0] == '\0');
    kernel = kernel_of(module, "right");
    gpulend_lease x = array(GPULEND_INT32, 1);
    gpulend_argument argument = gpulend_lease_argument(x);
    gpulend_launch_shape one = shape_of(1, 1);
    OK(gpulend_launch(kernel, &one, &argument, 1));
    int32_t found = 0;
    OK(gpulend_copy_to_host(x, &found, 4, 0));
    EXPECT(found == 8);
    OK(gpulend_free(x));
    OK(gpulend_kernel_free(kernel));
    OK(gpulend_module_free(module));

    const char *none[1] = {NULL};
    source.options = none;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(&source, &module));
    source.options = NULL;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(&source, &module));
    source.option_count = 0;
    source.compiler = 9;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(&source, &module));
    source.compiler = GPULEND_COMPILER_NVRTC;
    if (simulated) REFUSED(716, gpulend_compile(&source, &module));
    source.device = 77;
    REFUSED(916, gpulend_compile(&source, &module));
    source.device = GPULEND_HOST;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(&source, &module));
    source.device = 0;
    source.bytes = 0;
    source.text = "\x7f" "ELF";
    REFUSED(713, gpulend_compile(&source, &module));
    source.text = "\xff\xfe";
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(&source, &module));
    source.text = NULL;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(&source, &module));
    source.size = 8;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(&source, &module));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_compile(NULL, &module));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_set_compilers("/no/such/clang", NULL, NULL));
}

static void expect_sums(gpulend_lease c)
{
    static float found[COUNT];
    OK(gpulend_copy_to_host(c, found, sizeof found, 0));
    for (int i = 0; i < COUNT; i++) EXPECT(found[i] == 3 * i);
    memset(found, 0, sizeof found);
    OK(gpulend_copy_from_host(c, found, sizeof found, 0));
}

static void launches(gpulend_module module)
{
    static float numbers[2][COUNT];
    for (int i = 0; i < COUNT; i++) numbers[0][i] = (float)i, numbers[1][i] = 2 * (float)i;
    gpulend_lease a = array(GPULEND_FLOAT32, COUNT), b = array(GPULEND_FLOAT32, COUNT), c = array(GPULEND_FLOAT32, COUNT);
    OK(gpulend_copy_from_host(a, numbers[0], sizeof numbers[0], 0));
    OK(gpulend_copy_from_host(b, numbers[1], sizeof numbers[1], 0));
    gpulend_kernel add = kernel_of(module, "vectorAdd");
    char signature[100];
    OK(gpulend_kernel_signature(add, signature, sizeof signature, NULL));
    EXPECT(strcmp(signature, "vectorAdd(const float* a, const float* b, float* c, int n)") == 0);
    gpulend_kernel_info info;
    info.size = sizeof info;
    OK(gpulend_kernel_attributes(add, &info));
    EXPECT(info.max_threads_per_block >= 256 && info.shared_bytes == 0 && info.ptx_version > 0);

    gpulend_argument right[4] = {gpulend_lease_argument(a), gpulend_lease_argument(b), gpulend_lease_argument(c),
                                 gpulend_int_argument(COUNT)};
    gpulend_launch_shape shape = shape_of(4, 256);
    OK(gpulend_launch(add, &shape, right, 4));
    expect_sums(c);
    gpulend_stream stream;
    gpulend_timer timer;
    double milliseconds = -1;
    OK(gpulend_stream_create(0, 0, &stream));
    shape.stream = stream;
    OK(gpulend_timer_start(stream, &timer));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_timer_milliseconds(timer, &milliseconds));
    OK(gpulend_launch(add, &shape, right, 4));
    OK(gpulend_timer_stop(timer));
    OK(gpulend_timer_milliseconds(timer, &milliseconds));
    EXPECT(milliseconds > 0 && milliseconds < 10000);
    OK(gpulend_timer_free(timer));
    REFUSED(GPULEND_ENDED, gpulend_timer_stop(timer));
    expect_sums(c);
    OK(gpulend_forall(add, COUNT, right, 4, stream));
    expect_sums(c);
    OK(gpulend_forall(add, 0, right, 4, 0));
    OK(gpulend_stream_free(stream));
    shape.stream = 0;

    /* Every mistake is told with the argument's place and name, and the next launch works. */
    gpulend_argument wrong[4];
    gpulend_lease doubles = array(GPULEND_FLOAT64, COUNT), frozen, part, host;
    const int64_t count = COUNT;
    OK(gpulend_readonly(c, &frozen));
    OK(gpulend_slice(a, 0, 0, COUNT, 2, &part));
    OK(gpulend_zeros(GPULEND_HOST, GPULEND_FLOAT32, 1, &count, 0, &host));
    gpulend_argument unknown = {77, 0, 0}, nowhere = gpulend_bytes_argument(NULL, 4);
    const struct {
        int place;
        gpulend_argument argument;
        gpulend_status status;
        const char *words;
    } mistakes[] = {
        {1, gpulend_lease_argument(doubles), 821, "vectorAdd: argument 2 (b) is a float64 array"},
        {0, gpulend_int_argument(4096), 822, "argument 1 (a)"},
        {3, gpulend_lease_argument(a), 823, "argument 4 (n)"},
        {0, gpulend_lease_argument(host), 824, "argument 1 (a)"},
        {2, gpulend_lease_argument(frozen), 826, "argument 3 (c)"},
        {0, gpulend_lease_argument(part), 827, "argument 1 (a)"},
        {3, gpulend_int_argument((int64_t)1 << 31), 831, "argument 4 (n)"},
        {3, gpulend_uint_argument(UINT64_MAX), 831, "argument 4 (n)"},
        {3, gpulend_double_argument(2.5), 832, "argument 4 (n)"},
        {3, gpulend_null_argument(), 832, "argument 4 (n)"},
        {3, unknown, GPULEND_BAD_ARGUMENT, "kind 77"},
        {3, nowhere, GPULEND_BAD_ARGUMENT, "NULL"},
        {0, gpulend_lease_argument(add), GPULEND_OTHER_KIND, "a kernel"},
        {0, gpulend_lease_argument(0), GPULEND_NO_HANDLE, "not a handle"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        memcpy(wrong, right, sizeof wrong);
        wrong[mistakes[i].place] = mistakes[i].argument;
        REFUSED(mistakes[i].status, gpulend_launch(add, &shape, wrong, 4));
        says(mistakes[i].words);
        OK(gpulend_launch(add, &shape, right, 4));
        expect_sums(c);
    }
    printf("%s\n", (gpulend_launch(add, &shape, right, 3), gpulend_last_error()));
    REFUSED(820, gpulend_launch(add, &shape, right, 3));
    REFUSED(820, gpulend_forall(add, COUNT, NULL, 0, 0));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_launch(add, &shape, NULL, 4));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_launch(add, &shape, right, UINT64_MAX));
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_launch(add, NULL, right, 4));
    gpulend_launch_shape large = shape_of(1, 4096), empty = shape_of(0, 32), odd = shape_of(4, 256);
    REFUSED(804, gpulend_launch(add, &large, right, 4));
    REFUSED(804, gpulend_launch(add, &empty, right, 4));
    odd.flags = GPULEND_STRIDED;
    memcpy(wrong, right, sizeof wrong);
    wrong[0] = gpulend_lease_argument(part);
    wrong[3] = gpulend_int_argument(10);
    OK(gpulend_launch(add, &odd, wrong, 4));
    odd.flags = 1u << 31;
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_launch(add, &odd, right, 4));
    OK(gpulend_free(part));
    OK(gpulend_free(host));
    OK(gpulend_free(frozen));
    OK(gpulend_free(doubles));
    OK(gpulend_free(a));
    REFUSED(GPULEND_RELEASED, gpulend_launch(add, &shape, right, 4));
    OK(gpulend_free(b));
    OK(gpulend_free(c));
    OK(gpulend_kernel_free(add));
    REFUSED(GPULEND_ENDED, gpulend_kernel_free(add));
    REFUSED(801, gpulend_kernel_get(module, "vectorSub", &add));
    says("vectorAdd");
    REFUSED(GPULEND_BAD_ARGUMENT, gpulend_kernel_get(module, NULL, &add));
    REFUSED(GPULEND_OTHER_KIND, gpulend_kernel_signature(module, signature, 100, NULL));
}

static void variables(gpulend_module module)
{
    char names[100];
    OK(gpulend_module_variables(module, names, sizeof names, NULL));
    EXPECT(strstr(names, "counter\n") && strstr(names, "table\n"));
    gpulend_lease counter, table, x = array(GPULEND_FLOAT32, 3);
    OK(gpulend_module_variable(module, "counter", &counter));
    gpulend_kernel count = kernel_of(module, "count"), look = kernel_of(module, "look");
    gpulend_argument by = gpulend_int_argument(2);
    gpulend_launch_shape shape = shape_of(2, 32);
    OK(gpulend_launch(count, &shape, &by, 1));
    int32_t found = 0;
    OK(gpulend_copy_to_host(counter, &found, sizeof found, 0));
    EXPECT(found == 3 + 2 * 64);
    by = gpulend_int_argument(256);
    REFUSED(831, gpulend_launch(count, &shape, &by, 1));

    const float numbers[2][3] = {{1, 2, 3}, {4, 5, 6}};
    float seen[3] = {0};
    int64_t extents[2];
    OK(gpulend_module_variable(module, "table", &table));
    OK(gpulend_shape(table, 2, extents, NULL));
    EXPECT(extents[0] == 2 && extents[1] == 3);
    OK(gpulend_copy_from_host(table, numbers, sizeof numbers, 0));
    gpulend_argument place = gpulend_lease_argument(x);
    shape = shape_of(1, 3);
    OK(gpulend_launch(look, &shape, &place, 1));
    OK(gpulend_copy_to_host(x, seen, sizeof seen, 0));
    EXPECT(seen[0] == 1 && seen[2] == 3);
    REFUSED(803, gpulend_module_variable(module, "counted", &counter));
    says("counter");
    OK(gpulend_free(table));
    OK(gpulend_free(counter));
    OK(gpulend_free(x));
    OK(gpulend_kernel_free(count));
    OK(gpulend_kernel_free(look));
}

static void values(gpulend_module module)
{
    struct {
        float first;
        int32_t second;
    } pair = {2.5f, 4};
    gpulend_lease x = array(GPULEND_FLOAT64, 1), y = array(GPULEND_FLOAT32, 1);
    gpulend_kernel take = kernel_of(module, "take"), raise = kernel_of(module, "raise");
    gpulend_argument arguments[2] = {gpulend_bytes_argument(&pair, sizeof pair), gpulend_lease_argument(x)};
    gpulend_launch_shape shape = shape_of(1, 1);
    OK(gpulend_launch(take, &shape, arguments, 2));
    double product = 0;
    OK(gpulend_copy_to_host(x, &product, sizeof product, 0));
    EXPECT(product == 10);
    arguments[0].bytes = 4;
    REFUSED(834, gpulend_launch(take, &shape, arguments, 2));
    arguments[0] = gpulend_lease_argument(y);
    arguments[1] = gpulend_double_argument(1e300);
    REFUSED(833, gpulend_launch(raise, &shape, arguments, 2));
    arguments[1] = gpulend_double_argument(0.25);
    OK(gpulend_launch(raise, &shape, arguments, 2));
    float sum = 0;
    OK(gpulend_copy_to_host(y, &sum, sizeof sum, 0));
    EXPECT(sum == 0.25f);
    OK(gpulend_free(x));
    OK(gpulend_free(y));
    OK(gpulend_kernel_free(take));
    OK(gpulend_kernel_free(raise));
}

/* An instance that nobody named before, asked for while the module is not loaded, and after. */
static void templates(gpulend_module module)
{
    const char *names[2] = {"scale<int>", "scale<double>"};
    gpulend_launch_shape shape = shape_of(1, 2);
    for (int turn = 0; turn < 2; turn++) {
        gpulend_kernel scale = kernel_of(module, names[turn]);
        gpulend_lease x = array(turn ? GPULEND_FLOAT64 : GPULEND_INT32, 2);
        int32_t whole[2] = {3, 5};
        double real[2] = {3, 5};
        OK(gpulend_copy_from_host(x, turn ? (void *)real : (void *)whole, turn ? sizeof real : sizeof whole, 0));
        gpulend_argument arguments[2] = {gpulend_lease_argument(x),
                                         turn ? gpulend_double_argument(2) : gpulend_int_argument(2)};
        OK(gpulend_launch(scale, &shape, arguments, 2));
        OK(gpulend_copy_to_host(x, turn ? (void *)real : (void *)whole, turn ? sizeof real : sizeof whole, 0));
        EXPECT(turn ? real[1] == 10 : whole[1] == 10);
        OK(gpulend_free(x));
        OK(gpulend_kernel_free(scale));
    }
    gpulend_kernel scale;
    REFUSED(710, gpulend_kernel_get(module, "scale<missing>", &scale));
}

/* A real GPU does not survive it. */
static void faults(gpulend_module module)
{
    gpulend_kernel beyond = kernel_of(module, "beyond");
    gpulend_lease x = array(GPULEND_FLOAT32, 4);
    gpulend_argument arguments[2] = {gpulend_lease_argument(x), gpulend_int_argument(1 << 20)};
    gpulend_launch_shape shape = shape_of(1, 1);
    gpulend_status status = gpulend_launch(beyond, &shape, arguments, 2);
    if (status == GPULEND_OK) status = gpulend_synchronize(0);
    EXPECT(status == 810);
    says("beyond");
    says("kernel.cu:13");
    puts(gpulend_last_error());
    arguments[1] = gpulend_int_argument(3);
    OK(gpulend_launch(beyond, &shape, arguments, 2));
    float found[4];
    OK(gpulend_copy_to_host(x, found, sizeof found, 0));
    EXPECT(found[3] == 1);
    OK(gpulend_free(x));
    OK(gpulend_kernel_free(beyond));
}

int main(int count, char **arguments)
{
    if (count > 1 && arguments[1][0]) OK(gpulend_set_compilers(arguments[1], NULL, NULL));
    if (count > 2) OK(gpulend_set_compilers(NULL, arguments[2], NULL));
    gpulend_device_info device;
    device.size = sizeof device;
    OK(gpulend_device(0, &device));
    simulated = (device.flags & GPULEND_SIMULATED) != 0;
    uint64_t before = live();
    gpulend_module module = compile(SOURCE);
    templates(module);
    launches(module);
    variables(module);
    values(module);
    sources();
    if (simulated) faults(module);
    OK(gpulend_module_free(module));
    REFUSED(GPULEND_ENDED, gpulend_module_free(module));
    /* What was sliced is let go by a thread of gpulend's, when the GPU is done with it. */
    for (int turn = 0; turn < 10000 && live() != before; turn++) OK(gpulend_synchronize(0));
    EXPECT(live() == before);

    /* Let go at the end of the process: a variable, and the module that it alone holds. */
    gpulend_lease counter;
    module = compile(SOURCE);
    OK(gpulend_module_variable(module, "counter", &counter));
    OK(gpulend_module_free(module));
    OK(gpulend_free(counter));
    puts("done");
    return 0;
}
