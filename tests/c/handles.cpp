/* The C++ wrapper: what is made is freed, once, also where something throws. */
#include <gpulend.hpp>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#define EXPECT(condition)                                                                     \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);      \
            std::exit(1);                                                                     \
        }                                                                                     \
    } while (0)

static std::uint64_t live() {
    std::uint64_t count;
    gpulend::check(gpulend_live(&count));
    return count;
}

template <class Call> static gpulend_status refused(Call call) {
    try {
        call();
    } catch (const gpulend::Error &error) {
        EXPECT(error.what()[0] != '\0');
        return error.code;
    }
    return GPULEND_OK;
}

/* handles [clang [folders of NVRTC]] */
int main(int count, char **arguments) {
    auto before = live();
    {
        auto stream = gpulend::Stream::create();
        auto lease = gpulend::Lease::zeros({4, 5}, GPULEND_FLOAT32, 0, stream);
        EXPECT((lease.shape() == gpulend::Shape{4, 5}));
        EXPECT(lease.info().bytes == 80);
        std::vector<float> numbers(20), back(20);
        std::iota(numbers.begin(), numbers.end(), 0.0f);
        lease.copy_from(numbers.data(), 80, stream);
        lease.copy_to(back.data(), 80);
        EXPECT(back == numbers);

        auto part = lease.slice(0, 1, 3).reshape({10});
        part.copy_to(back.data(), 40);
        EXPECT(back[0] == 5 && back[9] == 14);
        EXPECT(refused([&] { lease.release(); }) == GPULEND_STILL_LENT);
        EXPECT(lease);

        auto event = stream.record();
        gpulend::Stream().wait(event);
        EXPECT(lease.pointer<float>(stream) != nullptr);
        lease.used_on(stream);
        stream.synchronize();

        auto moved = std::move(lease);
        EXPECT(!lease && moved);
        EXPECT(refused([&] { lease.info(); }) == GPULEND_NO_HANDLE);
    }
    {
        int freed = 0;
        std::vector<double> memory(8);
        auto count = [&](std::uint64_t address, std::uint64_t bytes) {
            EXPECT(address == reinterpret_cast<std::uintptr_t>(memory.data()) && bytes == 64);
            freed++;
        };
        auto lease = gpulend::Lease::wrap(memory.data(), {8}, GPULEND_FLOAT64, count);
        auto part = lease.slice(0, 2, 6, 2);
        lease.reset();
        EXPECT(freed == 0);
        part.reset();
        EXPECT(freed == 1);
        auto wrong = [&] { gpulend::Lease::wrap(nullptr, {8}, GPULEND_FLOAT64, count); };
        EXPECT(refused(wrong) == 401);
        EXPECT(freed == 1);
        EXPECT(gpulend::Lease::wrap(memory.data(), {8}, GPULEND_FLOAT64, nullptr).info().bytes == 64);
    }
    if (count > 1 && arguments[1][0]) gpulend::check(gpulend_set_compilers(arguments[1], nullptr, nullptr));
    if (count > 2) gpulend::check(gpulend_set_compilers(nullptr, arguments[2], nullptr));
    {
        struct Line {
            float slope;
            int offset;
        };
        auto module = gpulend::Module::compile("struct Line { float slope; int offset; };\n"
                                               "__device__ unsigned long long calls;\n"
                                               "template <class T> __global__ void apply(T *x, const T *y, Line line, int n) {\n"
                                               "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                               "    if (i < n) x[i] = line.slope * (y ? y[i] : i) + line.offset;\n"
                                               "    if (i == 0) calls++;\n"
                                               "}\n",
                                               0, {"apply<double>"});
        auto apply = module.kernel("apply<double>");
        auto stream = gpulend::Stream::create();
        auto x = gpulend::Lease::zeros({300}, GPULEND_FLOAT64), y = gpulend::Lease::zeros({300}, GPULEND_FLOAT64);
        apply.launch_on(stream, {3}, {128}, 0, y, nullptr, Line{2, 1}, 300);
        apply.forall(300, x, y, Line{0.5, 0}, 300u);
        std::vector<double> back(300);
        x.copy_to(back.data(), 2400);
        EXPECT(back[0] == 0.5 && back[299] == 0.5 * (2 * 299 + 1));
        unsigned long long calls = 0;
        module.variable("calls").copy_to(&calls, 8);
        EXPECT(calls == 2);
        auto floats = gpulend::Lease::zeros({300}, GPULEND_FLOAT32);
        EXPECT(refused([&] { apply.launch({3}, {128}, floats, y, Line{1, 1}, 300); }) == 821);
        EXPECT(refused([&] { apply.launch({3}, {128}, x, y, 1.5, 300); }) == 832);
        EXPECT(refused([&] { apply.launch({3}, {128, 128}, x, y, Line{1, 1}, 300); }) == 805);
        EXPECT(refused([&] { (void)module.kernel("applied"); }) == 801);
        EXPECT(refused([&] { (void)gpulend::Module::compile("__global__ void f() { x; }"); }) == 704);
    }
    for (int turn = 0; turn < 10000 && live() != before; turn++) gpulend::check(gpulend_synchronize(0));
    EXPECT(live() == before);
    std::puts("done");
}
