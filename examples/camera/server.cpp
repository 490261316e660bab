// A camera server in C++: frames on a GPU, sent to another process as tickets. Nothing is copied.
//
// Each frame's ticket is a line of hexadecimal digits on the standard output; the consumer, in any language, claims it
// and answers with a line. Here: consumer.py. Build with the options of `pkg-config --cflags --libs gpulend`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <gpulend.h>

static void check(gpulend_status status)
{
    if (status == 0) return;
    std::fprintf(stderr, "camera: %s\n", gpulend_last_error());
    std::exit(1);
}

int main()
{
    const int64_t shape[3] = {480, 640, 3};
    for (int number = 1; number <= 5; ++number) {
        gpulend_lease frame;
        check(gpulend_allocate_shared(0, GPULEND_UINT8, 3, shape, 0, &frame));
        const uint8_t light = static_cast<uint8_t>(10 * number);
        check(gpulend_fill(frame, &light, sizeof light, 0)); // what a real camera does with its own kernels
        uint8_t ticket[GPULEND_TICKET_BYTES];
        uint64_t size = 0;
        check(gpulend_ticket(frame, 1, 30.0, GPULEND_READONLY, ticket, sizeof ticket, &size));
        for (uint64_t at = 0; at < size; ++at) std::printf("%02x", ticket[at]);
        std::printf("\n");
        std::fflush(stdout);
        // The memory stays until the consumer's claim has ended, whatever happens to this handle.
        check(gpulend_free(frame));
        char answer[64];
        if (!std::fgets(answer, sizeof answer, stdin)) return 1;
    }
    return 0;
}
