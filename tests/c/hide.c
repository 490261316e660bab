/* For programs under valgrind: takes the simulated GPU's memory out of reach before leaks are looked for.
 *
 * It is tens of gigabytes of addresses, of which a few pages are in use and none holds a pointer of the
 * program's; to search it all would bring all of it into being.
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void hide(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (strstr(line, "/memfd:gpulend-simulated") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            mprotect((void *)(uintptr_t)start, end - start, PROT_NONE);
    }
    if (maps) fclose(maps);
}

/* Registered before gpulend's own handler, so that it runs after that. */
__attribute__((constructor)) static void begin(void) { atexit(hide); }
