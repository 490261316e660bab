/* Vector addition on the GPU: a program that allocates, copies, launches and frees, with every call checked. */
#include <gpulend.h>

#include <stdio.h>
#include <stdlib.h>

static const char source[] = "extern \"C\" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n) {\n"
                             "        c[i] = a[i] + b[i];\n"
                             "    }\n"
                             "}\n";

static void check(gpulend_status status)
{
    if (status != GPULEND_OK) {
        fprintf(stderr, "%s\n", gpulend_last_error());
        exit(1);
    }
}

int main(void)
{
    const int64_t n = 1024;
    const size_t size = (size_t)n * sizeof(float);
    float *a_h = malloc(size), *b_h = malloc(size), *c_h = malloc(size);
    for (int i = 0; i < n; ++i) {
        a_h[i] = (float)i;
        b_h[i] = (float)i * 2;
    }

    gpulend_lease a_d, b_d, c_d;
    check(gpulend_allocate(0, GPULEND_FLOAT32, 1, &n, 0, &a_d));
    check(gpulend_allocate(0, GPULEND_FLOAT32, 1, &n, 0, &b_d));
    check(gpulend_allocate(0, GPULEND_FLOAT32, 1, &n, 0, &c_d));
    check(gpulend_copy_from_host(a_d, a_h, size, 0));
    check(gpulend_copy_from_host(b_d, b_h, size, 0));

    gpulend_module module;
    gpulend_kernel vectorAdd;
    const gpulend_source program = {.size = sizeof program, .text = source};
    check(gpulend_compile(&program, &module));
    check(gpulend_kernel_get(module, "vectorAdd", &vectorAdd));
    const gpulend_argument arguments[] = {gpulend_lease_argument(a_d), gpulend_lease_argument(b_d),
                                          gpulend_lease_argument(c_d), gpulend_int_argument(n)};
    const gpulend_launch_shape shape = {.size = sizeof shape, .grid = {(uint32_t)(n + 255) / 256, 1, 1}, .block = {256, 1, 1}};
    check(gpulend_launch(vectorAdd, &shape, arguments, 4));
    check(gpulend_copy_to_host(c_d, c_h, size, 0));

    int wrong = 0;
    for (int i = 0; i < n; i++) {
        if (c_h[i] != a_h[i] + b_h[i]) wrong++;
    }
    printf("%d errors\n", wrong);

    check(gpulend_kernel_free(vectorAdd));
    check(gpulend_module_free(module));
    check(gpulend_free(a_d));
    check(gpulend_free(b_d));
    check(gpulend_free(c_d));
    free(a_h);
    free(b_h);
    free(c_h);
    return wrong != 0;
}
