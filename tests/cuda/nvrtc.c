/* A CUDA compiler that compiles nothing, for tests: it writes down what it is given.
 *
 *   STANDIN_SOURCES  folder for the sources of the kernels      STANDIN_NVRTC  what a compilation returns
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }

int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts,
                       const char **names) {
    static int count;
    const char *folder = getenv("STANDIN_SOURCES");
    if (folder) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d-%04d.cu", folder, (int)getpid(), __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED));
        FILE *file = fopen(path, "w");
        if (file) {
            fputs(source, file);
            fclose(file);
        }
    }
    *program = (void *)16;
    return 0;
}

int nvrtcCompileProgram(void *program, int count, const char **options) {
    const char *text = getenv("STANDIN_NVRTC");
    return text ? atoi(text) : 0;
}

static const char LOG[] = "the stand-in was told to fail";
static const char PTX[] = "ptx";

int nvrtcGetPTXSize(void *program, size_t *size) { *size = sizeof PTX; return 0; }
int nvrtcGetPTX(void *program, char *ptx) { memcpy(ptx, PTX, sizeof PTX); return 0; }
int nvrtcGetProgramLogSize(void *program, size_t *size) { *size = sizeof LOG; return 0; }
int nvrtcGetProgramLog(void *program, char *log) { memcpy(log, LOG, sizeof LOG); return 0; }
int nvrtcDestroyProgram(void **program) { return 0; }
const char *nvrtcGetErrorString(int error) { return "NVRTC_ERROR_STAND_IN"; }
