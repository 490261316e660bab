/* Counts the instructions of the calling thread between two calls, under callgrind with --instr-atstart=no and
 * --collect-atstart=no. Elsewhere a program runs as fast as valgrind can. */
#include <valgrind/callgrind.h>

/* Collection is of this thread only. It ends with the instrumentation; alone it would leave numbers of calls behind. */
void count_start(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_TOGGLE_COLLECT;
}

/* Writes what was counted to a file of its own, which has this name in it. */
void count_stop(const char *name)
{
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
