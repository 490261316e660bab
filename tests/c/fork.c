/* A child that is forked while other threads use handles finds the table open, and the host's memory usable. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop;

static void *use(void *nothing)
{
    const int64_t shape[1] = {3};
    (void)nothing;
    while (!atomic_load(&stop)) {
        gpulend_lease lease;
        OK(gpulend_zeros(GPULEND_HOST, GPULEND_INT8, 1, shape, 0, &lease));
        OK(gpulend_free(lease));
    }
    return NULL;
}

int main(void)
{
    const int64_t shape[1] = {4};
    int32_t numbers[4] = {1, 2, 3, 4}, back[4];
    gpulend_lease ours, device;
    OK(gpulend_zeros(GPULEND_HOST, GPULEND_INT32, 1, shape, 0, &ours));
    OK(gpulend_zeros(0, GPULEND_INT32, 1, shape, 0, &device));
    OK(gpulend_copy_from_host(ours, numbers, sizeof numbers, 0));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&threads[i], NULL, use, NULL) == 0);
    for (int turn = 0; turn < 50; turn++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            alarm(20);
            OK(gpulend_copy_to_host(ours, back, sizeof back, 0));
            EXPECT(memcmp(back, numbers, sizeof back) == 0);
            REFUSED(914, gpulend_copy_to_host(device, back, sizeof back, 0));
            OK(gpulend_free(device));
            OK(gpulend_free(ours));
            exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    OK(gpulend_copy_to_host(device, back, sizeof back, 0));
    OK(gpulend_free(device));
    OK(gpulend_release(ours));
    puts("done");
    return 0;
}
