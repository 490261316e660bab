/* Calls a deleter where the worst consumers do: on a thread that no runtime has heard of. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct call {
    void (*deleter)(void *);
    void *argument;
};

static void *run(void *context) {
    const struct call *call = (const struct call *)context;
    call->deleter(call->argument);
    return NULL;
}

static void check(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "%s: error %d\n", what, status);
        abort();
    }
}

void call_on_pthread(void (*deleter)(void *), void *argument);

/* Returns after deleter(argument) has returned on a thread of its own. */
void call_on_pthread(void (*deleter)(void *), void *argument) {
    struct call call = {deleter, argument};
    pthread_t thread;
    check(pthread_create(&thread, NULL, run, &call), "pthread_create");
    check(pthread_join(thread, NULL), "pthread_join");
}
