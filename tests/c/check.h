/* What the test programs share: a failed expectation ends the program with its line. */
#ifndef CHECK_H
#define CHECK_H

#include <gpulend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: expected %s\n  last error: %s\n", __FILE__, __LINE__, #condition,        \
                    gpulend_last_error());                                                                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* Succeeds. */
#define OK(call) EXPECT((call) == GPULEND_OK)

/* Whether a text has words of Python, of which a program in C can make nothing. */
static inline int speaks_python(const char *text)
{
    static const char *const words[] = {"astype",   "None",     "True",    "False",    "copy=",  "stream=",
                                        "device=",  "strided=", "owner=",  "deleter=", "numpy",  "NumPy",
                                        "torch",    "cupy",     "ctypes",  "tensor.",  "lease.", ".item()",
                                        "gpulend.", "pip ",     "Python.", "bytes(["};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(text, words[i])) return 1;
    }
    return 0;
}

/* Fails with a status, and says why, in words of C. */
#define REFUSED(status, call)                                                                                \
    do {                                                                                                     \
        gpulend_status found_ = (call);                                                                      \
        if (found_ != (status)) {                                                                            \
            fprintf(stderr, "%s:%d: %s gave %d, not %d\n  last error: %s\n", __FILE__, __LINE__, #call,       \
                    (int)found_, (int)(status), gpulend_last_error());                                       \
            exit(1);                                                                                         \
        }                                                                                                    \
        EXPECT(gpulend_last_error()[0] != '\0');                                                             \
        EXPECT(!speaks_python(gpulend_last_error()));                                                        \
    } while (0)

static inline uint64_t live(void)
{
    uint64_t count;
    OK(gpulend_live(&count));
    return count;
}

/* Memory that was let go is released by a thread of gpulend's, when the GPU's work on it is done. */
static inline void wait_for(volatile int *counter, int value)
{
    for (int turn = 0; turn < 20000000 && *counter != value; turn++) {
        if (turn % 1024 == 0) OK(gpulend_synchronize(0));
    }
    EXPECT(*counter == value);
}

#endif
