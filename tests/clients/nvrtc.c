/* A stand-in for NVRTC over gpulend's compiler, for measurements alone: what is compiled is always PTX, also where
 * machine code is asked for. It is preloaded as libnvrtc.so.13, and lets nvrtc.py do the work.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OK = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, COMPILATION = 6 };
enum { BUILTIN_OPERATION_FAILURE = 7, NO_NAMES_AFTER = 8, NO_LOWERED_BEFORE = 9, NAME_NOT_VALID = 10, INTERNAL = 11 };

#define NAMES 256

typedef struct {
    char folder[256];
    int names, compiled;
    char *expressions[NAMES];
    char *lowered[NAMES];
    char *ptx, *log;
    size_t ptx_size, log_size;
} Program;

/* Appends a text with its NUL to a file of the program's folder. */
static void put(const Program *program, const char *file, const char *text) {
    char path[288];
    snprintf(path, sizeof path, "%s/%s", program->folder, file);
    FILE *out = fopen(path, "ab");
    if (out == NULL) return;
    fwrite(text, 1, strlen(text) + 1, out);
    fclose(out);
}

/* Returns the content of a file and its size; a missing one is empty. */
static char *get(const Program *program, const char *file, size_t *size) {
    char path[288];
    snprintf(path, sizeof path, "%s/%s", program->folder, file);
    FILE *in = fopen(path, "rb");
    struct stat found;
    *size = in != NULL && fstat(fileno(in), &found) == 0 ? (size_t)found.st_size : 0;
    char *text = calloc(*size + 1, 1);
    if (in != NULL) {
        if (text != NULL) *size = fread(text, 1, *size, in);
        fclose(in);
    }
    return text;
}

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return OK;
}

const char *nvrtcGetErrorString(int code) {
    static const char *words[] = {
        "NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "NVRTC_ERROR_INVALID_INPUT",
        "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION", "NVRTC_ERROR_COMPILATION",
        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "NVRTC_ERROR_INTERNAL_ERROR"};
    return code >= 0 && code < (int)(sizeof words / sizeof *words) ? words[code] : "NVRTC_ERROR unknown";
}

int nvrtcGetNumSupportedArchs(int *count) {
    *count = 2;
    return OK;
}

int nvrtcGetSupportedArchs(int *archs) {
    archs[0] = 70;
    archs[1] = 75;
    return OK;
}

int nvrtcCreateProgram(Program **out, const char *source, const char *name, int count, const char *const *contents,
                       const char *const *headers) {
    if (out == NULL || source == NULL || count < 0) return INVALID_INPUT;
    Program *program = calloc(1, sizeof *program);
    if (program == NULL) return OUT_OF_MEMORY;
    const char *place = getenv("TMPDIR");
    if (place == NULL || *place == '\0') place = "/tmp";
    /* mkdtemp replaces the last six letters. */
    int length = snprintf(program->folder, sizeof program->folder, "%s/gpulend-nvrtc-XXXXXX", place);
    if (length >= (int)sizeof program->folder || mkdtemp(program->folder) == NULL) {
        free(program);
        return INTERNAL;
    }
    put(program, "source", source);
    put(program, "name", name == NULL || *name == '\0' ? "default_program" : name);
    for (int i = 0; i < count; i++) {
        put(program, "headers", headers[i]);
        put(program, "headers", contents[i]);
    }
    *out = program;
    return OK;
}

int nvrtcDestroyProgram(Program **given) {
    if (given == NULL || *given == NULL) return INVALID_PROGRAM;
    Program *program = *given;
    static const char *files[] = {"source", "name", "headers", "options", "names", "ptx", "log", "lowered"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[288];
        snprintf(path, sizeof path, "%s/%s", program->folder, files[i]);
        unlink(path);
    }
    rmdir(program->folder);
    for (int i = 0; i < program->names; i++) {
        free(program->expressions[i]);
        free(program->lowered[i]);
    }
    free(program->ptx);
    free(program->log);
    free(program);
    *given = NULL;
    return OK;
}

int nvrtcAddNameExpression(Program *program, const char *name) {
    if (program == NULL) return INVALID_PROGRAM;
    if (name == NULL || program->names == NAMES) return INVALID_INPUT;
    if (program->compiled) return NO_NAMES_AFTER;
    put(program, "names", name);
    program->expressions[program->names++] = strdup(name);
    return OK;
}

int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    if (program == NULL) return INVALID_PROGRAM;
    const char *python = getenv("NVRTC_STANDIN_PYTHON"), *script = getenv("NVRTC_STANDIN_SCRIPT");
    if (python == NULL || script == NULL) return INTERNAL;
    for (int i = 0; i < count; i++) put(program, "options", options[i]);
    /* The compiler is a process of its own, and needs no stand-in. */
    char *environment[1024];
    int kept = 0;
    for (char **entry = environ; *entry != NULL && kept < 1023; entry++)
        if (strncmp(*entry, "LD_PRELOAD=", 11) != 0) environment[kept++] = *entry;
    environment[kept] = NULL;
    char *arguments[] = {(char *)python, (char *)script, program->folder, NULL};
    pid_t child;
    int status = 1;
    if (posix_spawn(&child, python, NULL, NULL, arguments, environment) != 0) return INTERNAL;
    if (waitpid(child, &status, 0) != child) return INTERNAL;
    program->compiled = 1;
    program->log = get(program, "log", &program->log_size);
    program->ptx = get(program, "ptx", &program->ptx_size);
    size_t size;
    char *lowered = get(program, "lowered", &size);
    for (size_t at = 0, i = 0; at < size && i < (size_t)program->names; at += strlen(lowered + at) + 1)
        program->lowered[i++] = strdup(lowered + at);
    free(lowered);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? OK : COMPILATION;
}

int nvrtcGetLoweredName(Program *program, const char *name, const char **lowered) {
    if (program == NULL) return INVALID_PROGRAM;
    if (name == NULL || lowered == NULL) return INVALID_INPUT;
    if (!program->compiled) return NO_LOWERED_BEFORE;
    for (int i = 0; i < program->names; i++)
        if (strcmp(program->expressions[i], name) == 0 && program->lowered[i] != NULL) {
            *lowered = program->lowered[i];
            return OK;
        }
    return NAME_NOT_VALID;
}

/* PTX and log, each with its NUL. */
static int size_of(const Program *program, const char *text, size_t size, size_t *out) {
    if (program == NULL) return INVALID_PROGRAM;
    if (out == NULL) return INVALID_INPUT;
    *out = text == NULL ? 1 : size + 1;
    return OK;
}

static int copy_of(const Program *program, const char *text, size_t size, char *out) {
    if (program == NULL) return INVALID_PROGRAM;
    if (out == NULL) return INVALID_INPUT;
    if (text == NULL) size = 0;
    memcpy(out, size == 0 ? "" : text, size);
    out[size] = '\0';
    return OK;
}

int nvrtcGetPTXSize(Program *p, size_t *size) { return size_of(p, p ? p->ptx : NULL, p ? p->ptx_size : 0, size); }
int nvrtcGetPTX(Program *p, char *out) { return copy_of(p, p ? p->ptx : NULL, p ? p->ptx_size : 0, out); }
int nvrtcGetCUBINSize(Program *p, size_t *size) { return nvrtcGetPTXSize(p, size); }
int nvrtcGetCUBIN(Program *p, char *out) { return nvrtcGetPTX(p, out); }
int nvrtcGetProgramLogSize(Program *p, size_t *size) { return size_of(p, p ? p->log : NULL, p ? p->log_size : 0, size); }
int nvrtcGetProgramLog(Program *p, char *out) { return copy_of(p, p ? p->log : NULL, p ? p->log_size : 0, out); }
int nvrtcGetLTOIRSize(Program *p, size_t *size) { return p && size ? INVALID_PROGRAM : INVALID_INPUT; }
int nvrtcGetLTOIR(Program *p, char *out) { return p && out ? INVALID_PROGRAM : INVALID_INPUT; }
