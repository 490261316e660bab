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

int main() {
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
    EXPECT(live() == before);
    std::puts("done");
}
