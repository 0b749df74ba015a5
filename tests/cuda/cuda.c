/* Stand-in for a CUDA driver without a GPU, for tests and for `.ci/gpu/prebuild`. It allocates host memory, does not execute kernels, and
 * fails on request.
 *
 * With it, cubecl's CUDA runtime generates every kernel of a cell on any machine. Kernels do not write their results, so losses, errors,
 * times and choices of the autotuner are meaningless.
 *
 *   STANDIN_NAME        name of the card, as nvidia-smi prints it (default "stand-in without a GPU")
 *   STANDIN_CAPABILITY  its compute capability: 8.0, 8.9, 9.0 or 10.0 (default 9.0)
 *   STANDIN_PROCESSORS  number of multiprocessors (default: that of the card with this capability in `models`)
 *   STANDIN_MIB         memory in MiB (default 4096)
 *   STANDIN_L2          bytes of the L2 cache (default 0: unknown)
 *   STANDIN_CUDA        CUDA version of the driver (default 13000)
 *   STANDIN_DEVICES     number of cards (default 1). The last byte of a card's UUID is its number; the others are 0. Only with several cards,
 *                       CUDA_VISIBLE_DEVICES selects cards by their UUIDs or numbers.
 *
 *   STANDIN_INIT        return code of cuInit
 *   STANDIN_MODULE      return code of loading a compiled kernel
 *   STANDIN_LAUNCH      return code of a launch
 *   STANDIN_AFTER       number of launches that succeed before STANDIN_LAUNCH applies (default 0)
 *   STANDIN_GONE        file that the first failing launch creates. While it exists, cuInit fails in every process.
 *   STANDIN_COUNT       file to which the number of launches is written when the process ends
 *   STANDIN_HANG        seconds that every launch takes (default 0)
 *   STANDIN_ELAPSED     return code of reading the time between two events
 *   STANDIN_ELAPSED_NS  nanoseconds between any two events (default 1000)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int result;
typedef unsigned long long device_pointer;

enum { OUT_OF_MEMORY = 2, UNKNOWN = 999 };

static long long setting(const char *name, long long otherwise) {
    const char *text = getenv(name);
    return text ? atoll(text) : otherwise;
}

/* ---- the driver and its devices, which have the same properties ---- */

enum { MAX_DEVICES = 16 };

/* Writes the numbers of the visible cards. Returns how many there are. */
static int visible_cards(int *cards) {
    int all = (int)setting("STANDIN_DEVICES", 1), count = 0;
    const char *selected = getenv("CUDA_VISIBLE_DEVICES");
    if (all == 1 || !selected) {
        for (; count < all && count < MAX_DEVICES; count++) cards[count] = count;
        return count;
    }
    char *names = strdup(selected);
    for (char *name = strtok(names, ","); name && count < MAX_DEVICES; name = strtok(NULL, ",")) {
        const char *digits = strrchr(name, '-');
        cards[count++] = (int)strtol(digits ? digits + 1 : name, NULL, digits ? 16 : 10);
    }
    free(names);
    return count;
}

/* Limits that depend on the compute capability (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"). */
struct model { const char *capability; int major, minor, shared_kib, processors; };
static const struct model models[] = {
    { "8.0", 8, 0, 163, 108 },  /* A100 */
    { "8.9", 8, 9, 99, 142 },   /* L40S */
    { "9.0", 9, 0, 227, 132 },  /* H100, H200 */
    { "10.0", 10, 0, 227, 148 }, /* B200 */
};

/* Returns NULL for an unknown capability. */
static const struct model *model(void) {
    const char *text = getenv("STANDIN_CAPABILITY");
    for (size_t index = 0; index < sizeof models / sizeof *models; index++)
        if (!strcmp(models[index].capability, text ? text : "9.0")) return &models[index];
    return NULL;
}

result cuInit(unsigned flags) {
    const char *gone = getenv("STANDIN_GONE");
    if (!model()) {
        fprintf(stderr, "STANDIN_CAPABILITY=%s is not one of 8.0, 8.9, 9.0 and 10.0\n", getenv("STANDIN_CAPABILITY"));
        return UNKNOWN;
    }
    return gone && !access(gone, F_OK) ? UNKNOWN : (result)setting("STANDIN_INIT", 0);
}

result cuDriverGetVersion(int *version) { *version = (int)setting("STANDIN_CUDA", 13000); return 0; }
result cuDeviceGetCount(int *count) { int cards[MAX_DEVICES]; *count = visible_cards(cards); return 0; }
result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
result cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)setting("STANDIN_MIB", 4096) << 20; return 0; }

result cuDeviceGetName(char *name, int length, int device) {
    const char *text = getenv("STANDIN_NAME");
    snprintf(name, length, "%s", text ? text : "stand-in without a GPU");
    return 0;
}

result cuDeviceGetUuid_v2(char *uuid, int device) {
    int cards[MAX_DEVICES] = { 0 };
    visible_cards(cards);
    memset(uuid, 0, 16);
    uuid[15] = (char)cards[device];
    return 0;
}

result cuDeviceGetPCIBusId(char *id, int length, int device) { snprintf(id, length, "0000:01:00.0"); return 0; }

result cuDeviceGetAttribute(int *value, int attribute, int device) {
    const struct model *card = model();
    if (!card) return UNKNOWN;
    switch (attribute) {
    case 1: case 2: case 3: *value = 1024; break;       /* threads of a block, and along x and y */
    case 4: *value = 64; break;                          /* along z */
    case 5: *value = 2147483647; break;                  /* blocks along x */
    case 6: case 7: *value = 65535; break;               /* along y and z */
    case 10: *value = 32; break;                         /* threads of a warp */
    case 16: *value = (int)setting("STANDIN_PROCESSORS", card->processors); break;
    case 38: *value = (int)setting("STANDIN_L2", 0); break;
    case 75: *value = card->major; break;                /* compute capability */
    case 76: *value = card->minor; break;
    case 97: *value = card->shared_kib * 1024; break;    /* shared memory of a block that opts in */
    default: *value = 0;
    }
    return 0;
}

result cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)16; return 0; }
result cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
result cuCtxSetCurrent(void *context) { return 0; }
result cuCtxGetCurrent(void **context) { *context = (void *)16; return 0; }
result cuCtxSynchronize(void) { return 0; }
result cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = *greatest = 0; return 0; }
result cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)32; return 0; }
result cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return cuStreamCreate(stream, flags); }
result cuStreamDestroy_v2(void *stream) { return 0; }
result cuStreamSynchronize(void *stream) { return 0; }
result cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
result cuEventCreate(void **event, unsigned flags) { *event = (void *)48; return 0; }
result cuEventRecord(void *event, void *stream) { return 0; }
result cuEventElapsedTime_v2(float *milliseconds, void *start, void *stop) {
    *milliseconds = setting("STANDIN_ELAPSED_NS", 1000) / 1e6f;
    return (result)setting("STANDIN_ELAPSED", 0);
}
result cuEventSynchronize(void *event) { return 0; }
result cuEventDestroy_v2(void *event) { return 0; }

/* ---- memory ---- */

enum { MAX_BLOCKS = 1 << 16 };
static struct { void *start, *raw; size_t bytes; } blocks[MAX_BLOCKS];
static size_t allocated;

static result allocate(device_pointer *pointer, size_t bytes) {
    size_t all;
    cuDeviceTotalMem_v2(&all, 0);
    if (allocated + bytes > all) return OUT_OF_MEMORY;
    for (int slot = 0; slot < MAX_BLOCKS; slot++) {
        if (blocks[slot].start) continue;
        /* calloc commits pages on first access. */
        void *raw = calloc(1, bytes + 512);
        if (!raw) return OUT_OF_MEMORY;
        blocks[slot].raw = raw;
        blocks[slot].start = (void *)(((uintptr_t)raw + 511) & ~(uintptr_t)511);
        blocks[slot].bytes = bytes;
        allocated += bytes;
        *pointer = (device_pointer)(uintptr_t)blocks[slot].start;
        return 0;
    }
    return OUT_OF_MEMORY;
}

static result release(device_pointer pointer) {
    for (int slot = 0; slot < MAX_BLOCKS; slot++) {
        if ((device_pointer)(uintptr_t)blocks[slot].start != pointer || !pointer) continue;
        allocated -= blocks[slot].bytes;
        free(blocks[slot].raw);
        blocks[slot].start = NULL;
    }
    return 0;
}

/* Returns true if a block contains this memory. For other stand-ins. */
int standin_contains(const char *start, size_t bytes) {
    for (int slot = 0; slot < MAX_BLOCKS; slot++) {
        const char *block = blocks[slot].start;
        if (block && start >= block && start + bytes <= block + blocks[slot].bytes) return 1;
    }
    return 0;
}

result cuMemAlloc_v2(device_pointer *pointer, size_t bytes) { return allocate(pointer, bytes); }
result cuMemAllocAsync(device_pointer *pointer, size_t bytes, void *stream) { return allocate(pointer, bytes); }
result cuMemFree_v2(device_pointer pointer) { return release(pointer); }
result cuMemFreeAsync(device_pointer pointer, void *stream) { return release(pointer); }

result cuMemAllocHost_v2(void **pointer, size_t bytes) {
    *pointer = aligned_alloc(512, (bytes + 511) & ~(size_t)511);
    return *pointer ? 0 : OUT_OF_MEMORY;
}

result cuMemFreeHost(void *pointer) { free(pointer); return 0; }

result cuMemcpyHtoDAsync_v2(device_pointer to, const void *from, size_t bytes, void *stream) {
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

result cuMemcpyDtoHAsync_v2(void *to, device_pointer from, size_t bytes, void *stream) {
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

result cuMemsetD8Async(device_pointer to, unsigned char value, size_t bytes, void *stream) {
    memset((void *)(uintptr_t)to, value, bytes);
    return 0;
}

result cuMemcpyDtoDAsync_v2(device_pointer to, device_pointer from, size_t bytes, void *stream) {
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return 0;
}

struct copy {
    size_t from_x, from_y; int from_kind; const void *from_host; device_pointer from_device; void *from_array;
    size_t from_pitch;
    size_t to_x, to_y; int to_kind; void *to_host; device_pointer to_device; void *to_array; size_t to_pitch;
    size_t width, height;
};

result cuMemcpy2DAsync_v2(const struct copy *copy, void *stream) {
    enum { HOST = 1 };
    const char *from = copy->from_kind == HOST ? copy->from_host : (const char *)(uintptr_t)copy->from_device;
    char *to = copy->to_kind == HOST ? copy->to_host : (char *)(uintptr_t)copy->to_device;
    for (size_t row = 0; row < copy->height; row++)
        memcpy(to + row * copy->to_pitch, from + row * copy->from_pitch, copy->width);
    return 0;
}

/* ---- kernels ---- */

result cuModuleLoadData(void **module, const void *image) {
    *module = (void *)64;
    return (result)setting("STANDIN_MODULE", 0);
}

result cuModuleUnload(void *module) { return 0; }
result cuModuleGetFunction(void **function, void *module, const char *name) { *function = (void *)80; return 0; }
result cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }

result cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const void *dims, const void *strides,
                              const void *box, const void *steps, int interleave, int swizzle, int promotion, int fill) {
    return 0;
}

result cuTensorMapEncodeIm2col(void *map, int type, unsigned rank, void *address, const void *dims, const void *strides,
                               const void *lower, const void *upper, unsigned channels, unsigned pixels,
                               const void *steps, int interleave, int swizzle, int promotion, int fill) {
    return 0;
}

/* cubecl calls this function from compute capability 10.0 on. */
result cuTensorMapEncodeIm2colWide(void *map, int type, unsigned rank, void *address, const void *dims, const void *strides,
                                   int lower, int upper, unsigned channels, unsigned pixels, const void *steps,
                                   int interleave, int mode, int swizzle, int promotion, int fill) {
    return 0;
}

static long long launches;

__attribute__((destructor)) static void write_launches(void) {
    const char *path = getenv("STANDIN_COUNT");
    FILE *file = path && launches ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%lld\n", launches);
    fclose(file);
}

static result launch(void) {
    sleep((unsigned)setting("STANDIN_HANG", 0));
    if (__sync_fetch_and_add(&launches, 1) < setting("STANDIN_AFTER", 0)) return 0;
    const char *gone = getenv("STANDIN_GONE");
    if (gone) fclose(fopen(gone, "w"));
    return (result)setting("STANDIN_LAUNCH", 0);
}

result cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments, void **extra) {
    return launch();
}

result cuLaunchKernelEx(const void *configuration, void *function, void **arguments, void **extra) {
    return launch();
}

result cuGetErrorName(int error, const char **name) {
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_STAND_IN";
    return 0;
}

result cuGetErrorString(int error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : "the stand-in was configured to fail";
    return 0;
}
