/* Stand-in for NCCL, for tests without GPUs. It sums buffers of the stand-in driver (`tests/cuda/cuda.c`) over processes of one machine, which
 * exchange them as files. It adds from the last rank to the first, and each addition rounds to the type of the values.
 *
 *   STANDIN_NCCL_FOLDER  folder of the files, and of `calls.log`, which has a line for each call (required)
 *   STANDIN_NCCL_STATUS  return code of ncclAllReduce (default 0)
 *   STANDIN_NCCL_RANK    rank to which STANDIN_NCCL_STATUS applies (default: every rank)
 *   STANDIN_NCCL_AFTER   number of sums that succeed before STANDIN_NCCL_STATUS applies (default 0)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int result;

enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4 };
enum { FLOAT16 = 6, FLOAT32 = 7, FLOAT64 = 8, BFLOAT16 = 9 };
enum { SUM = 0 };

struct id { char text[128]; };
struct group { int ranks, rank, sums; struct id id; };
struct header { size_t count; int type; };

static const char *last_error = "";

static result fail(result code, const char *text) {
    last_error = text;
    return code;
}

static long long setting(const char *name, long long otherwise) {
    const char *text = getenv(name);
    return text ? atoll(text) : otherwise;
}

static const char *folder(void) {
    const char *path = getenv("STANDIN_NCCL_FOLDER");
    if (!path) {
        fprintf(stderr, "STANDIN_NCCL_FOLDER is not set\n");
        _exit(1);
    }
    return path;
}

/* Appends the line in a single write, so that lines of several processes do not mix. */
static void write_log(const char *rank, const char *call) {
    char path[4096];
    const char *algorithm = getenv("NCCL_ALGO");
    snprintf(path, sizeof path, "%s/calls.log", folder());
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "rank=%s NCCL_ALGO=%s CUDA_VISIBLE_DEVICES=%s %s\n", rank, algorithm ? algorithm : "",
            getenv("CUDA_VISIBLE_DEVICES"), call);
    fclose(file);
}

static void write_log_of(const struct group *group, const char *call) {
    char rank[16];
    snprintf(rank, sizeof rank, "%d", group->rank);
    write_log(rank, call);
}

/* ---- exchange of buffers ---- */

static void path_of(char *path, size_t bytes, const struct group *group, int sum, int rank) {
    snprintf(path, bytes, "%s/%s.%d.%d", folder(), group->id.text, sum, rank);
}

/* Writes a buffer to the file of this rank. The file appears only when it is complete. */
static void send(const struct group *group, struct header header, const void *values, size_t bytes) {
    char path[4096], part[4200];
    /* All ranks have read the sum before the last one, because all of them have sent the last one. */
    path_of(path, sizeof path, group, group->sums - 2, group->rank);
    unlink(path);
    path_of(path, sizeof path, group, group->sums, group->rank);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "w");
    if (!file) abort();
    if (fwrite(&header, sizeof header, 1, file) != 1 || fwrite(values, 1, bytes, file) != bytes) abort();
    fclose(file);
    rename(part, path);
}

/* Waits for the file of a rank, forever if necessary, and reads it. Returns an error if the rank sums another buffer. */
static result receive(const struct group *group, int rank, struct header expected, void *values, size_t bytes) {
    char path[4096];
    struct header header;
    FILE *file;
    path_of(path, sizeof path, group, group->sums, rank);
    while (!(file = fopen(path, "r"))) usleep(200);
    if (fread(&header, sizeof header, 1, file) != 1) abort();
    if (header.count != expected.count || header.type != expected.type) {
        fclose(file);
        return fail(INVALID_ARGUMENT, "the ranks sum different buffers");
    }
    if (fread(values, 1, bytes, file) != bytes) abort();
    fclose(file);
    return 0;
}

/* ---- additions ---- */

static float from_bfloat16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds to nearest even. */
static uint16_t to_bfloat16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static void add(void *sums, const void *values, size_t count, int type) {
    for (size_t index = 0; index < count; index++) {
        if (type == FLOAT64) ((double *)sums)[index] += ((const double *)values)[index];
        if (type == FLOAT32) ((float *)sums)[index] += ((const float *)values)[index];
        if (type == FLOAT16) ((_Float16 *)sums)[index] += ((const _Float16 *)values)[index];
        if (type == BFLOAT16) {
            uint16_t *sum = (uint16_t *)sums + index;
            *sum = to_bfloat16(from_bfloat16(*sum) + from_bfloat16(((const uint16_t *)values)[index]));
        }
    }
}

/* ---- functions of NCCL ---- */

result ncclGetVersion(int *version) {
    *version = 22703;
    return 0;
}

const char *ncclGetErrorString(result code) {
    return code == INVALID_ARGUMENT ? "invalid argument" : "unhandled system error";
}

const char *ncclGetLastError(struct group *group) { return last_error; }

result ncclGetUniqueId(struct id *id) {
    memset(id, 0, sizeof *id);
    snprintf(id->text, sizeof id->text, "standin-%d", (int)getpid());
    write_log("?", "ncclGetUniqueId");
    return 0;
}

result ncclCommInitRank(struct group **group, int ranks, struct id id, int rank) {
    char call[64];
    if (strncmp(id.text, "standin-", 8) || rank < 0 || rank >= ranks)
        return fail(INVALID_ARGUMENT, "the identifier or the rank is not valid");
    struct group *new = calloc(1, sizeof *new);
    new->ranks = ranks;
    new->rank = rank;
    new->id = id;
    snprintf(call, sizeof call, "ncclCommInitRank ranks=%d", ranks);
    write_log_of(new, call);
    /* Ranks with another identifier would wait forever. */
    struct header header = { 0, 0 };
    send(new, header, "", 0);
    for (int other = 0; other < ranks; other++) receive(new, other, header, call, 0);
    new->sums = 1;
    *group = new;
    return 0;
}

/* Returns true if the stand-in driver allocated the memory. */
static int is_device_memory(const void *start, size_t bytes) {
    void *driver = dlopen("libcuda.so", RTLD_NOW);
    int (*contains)(const void *, size_t) = driver ? (int (*)(const void *, size_t))dlsym(driver, "standin_contains") : NULL;
    return contains && contains(start, bytes);
}

result ncclAllReduce(const void *own, void *sums, size_t count, int type, int operation, struct group *group, void *stream) {
    static const char *const names[] = { [FLOAT16] = "f16", [FLOAT32] = "f32", [FLOAT64] = "f64", [BFLOAT16] = "bf16" };
    static const size_t sizes[] = { [FLOAT16] = 2, [FLOAT32] = 4, [FLOAT64] = 8, [BFLOAT16] = 2 };
    char call[128];
    if (type < FLOAT16 || type > BFLOAT16 || operation != SUM || !count || !group || !stream)
        return fail(INVALID_ARGUMENT, "an argument is not valid");
    size_t bytes = count * sizes[type];
    if (!is_device_memory(own, bytes) || !is_device_memory(sums, bytes))
        return fail(INVALID_ARGUMENT, "a buffer is not in device memory");
    snprintf(call, sizeof call, "ncclAllReduce count=%zu type=%s", count, names[type]);
    write_log_of(group, call);
    result status = (result)setting("STANDIN_NCCL_STATUS", 0);
    long long rank = setting("STANDIN_NCCL_RANK", group->rank);
    if (status && rank == group->rank && group->sums > setting("STANDIN_NCCL_AFTER", 0))
        return fail(status, "the stand-in was configured to fail");
    struct header header = { count, type };
    send(group, header, own, bytes);
    void *received = malloc(bytes);
    result code = 0;
    for (int other = group->ranks - 1; other >= 0 && !code; other--) {
        code = receive(group, other, header, received, bytes);
        if (code) break;
        if (other == group->ranks - 1) memcpy(sums, received, bytes);
        else add(sums, received, count, type);
    }
    free(received);
    group->sums++;
    return code;
}

result ncclCommDestroy(struct group *group) {
    write_log_of(group, "ncclCommDestroy");
    free(group);
    return 0;
}
