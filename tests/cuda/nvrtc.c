/* Stand-in for NVRTC, the CUDA run-time compiler, for tests and for `.ci/gpu/prebuild`. It compiles nothing, or forwards every call to the
 * real NVRTC.
 *
 *   STANDIN_SOURCES     folder for the sources of the kernels, `<process>-<number>.cu`, and the PTX of the real NVRTC next to
 *                       them, `<process>-<number>.ptx`
 *   STANDIN_NVRTC_VERSION  1000 · major + 10 · minor of its version (default: 12000)
 *   STANDIN_NVRTC       return code of a compilation, without the real NVRTC
 *   STANDIN_NVRTC_TEXT  text of the sources to which STANDIN_NVRTC applies (default: all sources)
 *   STANDIN_REAL_NVRTC  path of the real library
 *   STANDIN_LOG         folder of `compiled.log`, which contains a line for each compilation by the real NVRTC:
 *                         <process>-<number> rc=<return code> wall=<seconds> cpu=<seconds> ptx=<bytes>
 *                       The source of a rejected kernel and the compiler's messages are `<process>-<number>.cu` in the same folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int result;

/* Handle of a program. */
struct program { void *real; int number; char *source; };

static const char LOG[] = "the stand-in was configured to fail";
static const char PTX[] = "ptx";

/* Returns a function of the real library, or NULL if the stand-in compiles nothing. */
static void *real(const char *name) {
    static void *library;
    const char *path = getenv("STANDIN_REAL_NVRTC");
    if (!path) return NULL;
    void *opened = library ? library : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    void *function = opened ? dlsym(opened, name) : NULL;
    if (!function) {
        fprintf(stderr, "cannot use STANDIN_REAL_NVRTC=%s: %s\n", path, dlerror());
        _exit(1);
    }
    library = opened;
    return function;
}

#define REAL(name, ...) ((result (*)(__VA_ARGS__))real(name))

/* Opens a file of a program in the folder that a variable names. Returns NULL if the variable is not set. */
static FILE *open_for(const char *variable, const struct program *program, const char *extension) {
    const char *folder = getenv(variable);
    char path[4096];
    if (!folder) return NULL;
    snprintf(path, sizeof path, "%s/%d-%04d.%s", folder, (int)getpid(), program->number, extension);
    return fopen(path, "w");
}

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

result nvrtcVersion(int *major, int *minor) {
    result (*function)(int *, int *) = REAL("nvrtcVersion", int *, int *);
    if (function) return function(major, minor);
    int version = atoi(getenv("STANDIN_NVRTC_VERSION") ? getenv("STANDIN_NVRTC_VERSION") : "12000");
    *major = version / 1000;
    *minor = version % 1000 / 10;
    return 0;
}

result nvrtcCreateProgram(void **handle, const char *source, const char *name, int headers, const char **texts,
                          const char **names) {
    static int count;
    struct program *program = calloc(1, sizeof *program);
    result (*function)(void **, const char *, const char *, int, const char **, const char **) =
        REAL("nvrtcCreateProgram", void **, const char *, const char *, int, const char **, const char **);
    program->number = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    program->source = strdup(source);
    FILE *file = open_for("STANDIN_SOURCES", program, "cu");
    if (file) {
        fputs(source, file);
        fclose(file);
    }
    *handle = program;
    return function ? function(&program->real, source, name, headers, texts, names) : 0;
}

static void write_rejected(const struct program *program) {
    FILE *file = open_for("STANDIN_LOG", program, "cu");
    size_t size = 0;
    if (!file) return;
    REAL("nvrtcGetProgramLogSize", void *, size_t *)(program->real, &size);
    char *messages = calloc(1, size + 1);
    REAL("nvrtcGetProgramLog", void *, char *)(program->real, messages);
    fprintf(file, "%s\n/*\n%s\n*/\n", program->source, messages);
    free(messages);
    fclose(file);
}

static void write_ptx(const struct program *program, size_t size) {
    FILE *file = open_for("STANDIN_SOURCES", program, "ptx");
    if (!file) return;
    char *ptx = calloc(1, size + 1);
    REAL("nvrtcGetPTX", void *, char *)(program->real, ptx);
    fputs(ptx, file);
    free(ptx);
    fclose(file);
}

/* Appends the line in a single write, so that lines of several processes do not mix. */
static void write_log(const struct program *program, result code, double wall, double cpu, size_t size) {
    const char *folder = getenv("STANDIN_LOG");
    char path[4096];
    if (!folder) return;
    snprintf(path, sizeof path, "%s/compiled.log", folder);
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "%d-%04d rc=%d wall=%.3f cpu=%.3f ptx=%zu\n", (int)getpid(), program->number, code, wall, cpu, size);
    fclose(file);
}

result nvrtcCompileProgram(struct program *program, int count, const char **options) {
    result (*function)(void *, int, const char **) = REAL("nvrtcCompileProgram", void *, int, const char **);
    if (!function) {
        const char *code = getenv("STANDIN_NVRTC"), *text = getenv("STANDIN_NVRTC_TEXT");
        return code && (!text || strstr(program->source, text)) ? atoi(code) : 0;
    }
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    result code = function(program->real, count, options);
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    size_t size = 0;
    if (code) {
        write_rejected(program);
    } else {
        REAL("nvrtcGetPTXSize", void *, size_t *)(program->real, &size);
        write_ptx(program, size);
    }
    write_log(program, code, wall, cpu, size);
    return code;
}

static result size_of(const char *name, struct program *program, size_t *size, size_t stand_in) {
    result (*function)(void *, size_t *) = REAL(name, void *, size_t *);
    if (function) return function(program->real, size);
    *size = stand_in;
    return 0;
}

static result text_of(const char *name, struct program *program, char *text, const char *stand_in) {
    result (*function)(void *, char *) = REAL(name, void *, char *);
    if (function) return function(program->real, text);
    strcpy(text, stand_in);
    return 0;
}

result nvrtcGetPTXSize(struct program *program, size_t *size) { return size_of("nvrtcGetPTXSize", program, size, sizeof PTX); }
result nvrtcGetPTX(struct program *program, char *ptx) { return text_of("nvrtcGetPTX", program, ptx, PTX); }

result nvrtcGetProgramLogSize(struct program *program, size_t *size) {
    return size_of("nvrtcGetProgramLogSize", program, size, sizeof LOG);
}

result nvrtcGetProgramLog(struct program *program, char *log) { return text_of("nvrtcGetProgramLog", program, log, LOG); }

result nvrtcDestroyProgram(struct program **handle) {
    struct program *program = *handle;
    result (*function)(void **) = REAL("nvrtcDestroyProgram", void **);
    result code = function ? function(&program->real) : 0;
    free(program->source);
    free(program);
    *handle = NULL;
    return code;
}

const char *nvrtcGetErrorString(result code) {
    const char *(*function)(result) = (const char *(*)(result))real("nvrtcGetErrorString");
    return function ? function(code) : "NVRTC_ERROR_STAND_IN";
}
