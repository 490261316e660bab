/* Uses two copies of gpulend, one after the other, loaded as told:
 * pair FIRST SECOND local|global|apart.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int32_t (*Live)(uint64_t *);
typedef const char *(*Words)(void);

static void *load(const char *path, const char *how)
{
    int visible = strcmp(how, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    int apart = strcmp(how, "apart") == 0;
    void *library = apart ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW | visible);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    return library;
}

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    void *libraries[2] = {load(arguments[1], arguments[3]), load(arguments[2], arguments[3])};
    for (int turn = 0; turn < 4; turn++) {
        uint64_t live;
        Live function;
        Words words;
        if (!libraries[turn % 2]) return 3;
        *(void **)&function = dlsym(libraries[turn % 2], "gpulend_live");
        *(void **)&words = dlsym(libraries[turn % 2], "gpulend_last_error");
        int32_t status = function(&live);
        printf("%d %s\n", (int)status, status ? words() : "");
    }
    return 0;
}
