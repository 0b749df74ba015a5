/* Stand-in for NVML without a GPU, for tests. A script defines the result of every call.
 *
 * The script is the file in MANTISSA_NVML_SCRIPT, or else `LIBRARY.script` next to this library. A copy of the library with
 * another script simulates another machine. Calls for quantities that are not in the script return "not supported". `#` begins
 * a comment.
 *
 *   init CODE                       return code of nvmlInit (0 is success)
 *   driver VERSION                  slow MICROSECONDS      duration of each call on a device
 *   device UUID BUS-ID NAME…        begins a device; NVML lists devices in script order
 *   slice UUID NAME…                begins a MIG slice of the last device
 *
 * and for the last device or slice:
 *
 *   total BYTES                     memory VALUES   bytes in use        power VALUES    mW, nvmlDeviceGetPowerUsage
 *   instant VALUES  mW, field 186   energy VALUES   mJ                  clock VALUES    MHz, of the SMs
 *   idle VALUES     mW, replaces `power` and `instant` in processes without CUDA_VISIBLE_DEVICES, where the utilisation is 0
 *   memory-clock VALUES  MHz        temperature VALUES  °C              throttle VALUES bits
 *   utilisation VALUES   %          ecc VALUES      uncorrected errors  limit mW        max-clock MHz
 *   persistence 0|1                 ecc-mode 0|1    mig 0|1
 *   process PID|self BYTES|hidden [FROM [TO]]       process that the calls FROM to TO list; `self`: the caller, `hidden`: unknown size
 *   visitor PID BYTES [FROM [TO]]   the same, but not listed in a process with CUDA_VISIBLE_DEVICES
 *   rival PID BYTES [FROM [TO]]     the same, but only listed in a process with CUDA_VISIBLE_DEVICES
 *   no-processes                    the driver lists no processes
 *   fail WHAT FROM CODE [TO]        the calls FROM to TO for the quantity WHAT (a name above) return CODE. WHAT can also be `any`: all
 *                                   calls on the device, `open`: those that return its handle, `processes`: those that list processes
 *
 * VALUES are the results of successive calls: `V` for one call, `V*N` for N calls, `V+D` rises by D at each call. The last one
 * applies to all later calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int result;
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };

enum quantity {
    ANY, OPEN, TOTAL, MEMORY, POWER, INSTANT, ENERGY, CLOCK, MEMORY_CLOCK, TEMPERATURE, THROTTLE, UTILISATION, ECC,
    LIMIT, MAX_CLOCK, PERSISTENCE, ECC_MODE, MIG, PROCESSES, IDLE, QUANTITIES
};
static const char *NAMES[QUANTITIES] = {
    "any", "open", "total", "memory", "power", "instant", "energy", "clock", "memory-clock", "temperature", "throttle",
    "utilisation", "ecc", "limit", "max-clock", "persistence", "ecc-mode", "mig", "processes", "idle"
};

enum { MAX_ITEMS = 32, FOREVER = -1 };

struct value { long long start, step, calls; };

struct calls {
    struct value values[MAX_ITEMS];
    int count;
    long long made, fail_from, fail_to;
    result code;
};

struct process { int self, hidden, visits, competes; unsigned pid; unsigned long long bytes; long long from, to; };

struct device {
    char uuid[96], bus_id[32], name[96];
    struct device *parent;
    int hides_processes, process_count;
    struct process processes[MAX_ITEMS];
    struct calls calls[QUANTITIES];
};

static struct device devices[MAX_ITEMS];
static int count;
static result init = UNKNOWN;
static unsigned slow;
static char driver[80] = "0.0";

/* ---- the script ---- */

static void parse_values(struct calls *calls, char *text) {
    for (char *word = strtok(text, " "); word && calls->count < MAX_ITEMS; word = strtok(NULL, " ")) {
        struct value *value = &calls->values[calls->count++];
        value->start = strtoll(word, &word, 0);
        value->step = *word == '+' || *word == '-' ? strtoll(word, &word, 0) : 0;
        value->calls = *word == '*' ? strtoll(word + 1, &word, 0) : value->step ? FOREVER : 1;
    }
}

static int find_quantity(const char *name) {
    for (int index = 0; index < QUANTITIES; index++)
        if (!strcmp(name, NAMES[index])) return index;
    return QUANTITIES;
}

static void parse_process(struct device *device, const char *text) {
    char pid[16] = "", bytes[24] = "";
    struct process *process = &device->processes[device->process_count++];
    process->from = 1;
    process->to = FOREVER;
    sscanf(text, "%15s %23s %lld %lld", pid, bytes, &process->from, &process->to);
    process->self = !strcmp(pid, "self");
    process->pid = (unsigned)strtoul(pid, NULL, 10);
    process->hidden = !strcmp(bytes, "hidden");
    process->bytes = strtoull(bytes, NULL, 10);
}

/* Reads one line. Aborts on an invalid line, because the test would otherwise run with another script than intended. */
static void parse_line(char *text) {
    char word[32] = "", what[32] = "";
    int parsed = 0;
    text[strcspn(text, "#\n")] = 0;
    if (sscanf(text, " %31s %n", word, &parsed) < 1) return;
    char *after = text + parsed;
    struct device *device = count ? &devices[count - 1] : NULL;
    int which = find_quantity(word);
    if (!strcmp(word, "init")) { init = atoi(after); return; }
    if (!strcmp(word, "slow")) { slow = (unsigned)atoi(after); return; }
    if (!strcmp(word, "driver")) { sscanf(after, "%79s", driver); return; }
    if (!strcmp(word, "device") && count < MAX_ITEMS) {
        sscanf(after, "%95s %31s %95[^\n]", devices[count].uuid, devices[count].bus_id, devices[count].name);
        count++;
        return;
    }
    if (!strcmp(word, "slice") && device && count < MAX_ITEMS) {
        sscanf(after, "%95s %95[^\n]", devices[count].uuid, devices[count].name);
        devices[count++].parent = device->parent ? device->parent : device;
        return;
    }
    int visits = !strcmp(word, "visitor"), competes = !strcmp(word, "rival");
    if ((visits || competes || !strcmp(word, "process")) && device && device->process_count < MAX_ITEMS) {
        parse_process(device, after);
        device->processes[device->process_count - 1].visits = visits;
        device->processes[device->process_count - 1].competes = competes;
        return;
    }
    if (!strcmp(word, "no-processes") && device) { device->hides_processes = 1; return; }
    if (!strcmp(word, "fail") && device) {
        long long from = 1, to = FOREVER;
        result code = UNKNOWN;
        sscanf(after, "%31s %lld %d %lld", what, &from, &code, &to);
        which = find_quantity(what);
        if (which < QUANTITIES) {
            device->calls[which].fail_from = from;
            device->calls[which].fail_to = to;
            device->calls[which].code = code;
            return;
        }
    } else if (which < QUANTITIES && device) {
        parse_values(&device->calls[which], after);
        return;
    }
    fprintf(stderr, "invalid line in the NVML script: `%s`\n", text);
    abort();
}

static void load(void) {
    Dl_info self;
    char default_script[4096] = "", text[512];
    if (dladdr(NAMES, &self)) snprintf(default_script, sizeof default_script, "%s.script", self.dli_fname);
    const char *named = getenv("MANTISSA_NVML_SCRIPT");
    FILE *file = fopen(named ? named : default_script, "r");
    if (!file) return;
    init = SUCCESS;
    while (fgets(text, sizeof text, file)) parse_line(text);
    fclose(file);
}

/* ---- results of calls ---- */

static result count_call(struct calls *calls) {
    long long call = ++calls->made;
    int fails = calls->fail_from && call >= calls->fail_from && (calls->fail_to == FOREVER || call <= calls->fail_to);
    return fails ? calls->code : SUCCESS;
}

static result next_value(struct device *device, enum quantity which, long long *value) {
    if (slow) usleep(slow);
    struct calls *calls = &device->calls[which];
    result any = count_call(&device->calls[ANY]), this = count_call(calls);
    if (any || this) return any ? any : this;
    if (!calls->count) return NOT_SUPPORTED;
    long long call = calls->made - 1;
    int index = 0;
    for (; index < calls->count - 1 && calls->values[index].calls != FOREVER; index++) {
        if (call < calls->values[index].calls) break;
        call -= calls->values[index].calls;
    }
    *value = calls->values[index].start + calls->values[index].step * call;
    return SUCCESS;
}

static result number(struct device *device, enum quantity which, unsigned *to) {
    long long value;
    result code = next_value(device, which, &value);
    if (!code) *to = (unsigned)value;
    return code;
}

static result number64(struct device *device, enum quantity which, unsigned long long *to) {
    long long value;
    result code = next_value(device, which, &value);
    if (!code) *to = (unsigned long long)value;
    return code;
}

/* ---- the library ---- */

result nvmlInit_v2(void) {
    if (init == UNKNOWN) load();
    return init;
}

result nvmlShutdown(void) { return SUCCESS; }

result nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "%s", driver);
    return SUCCESS;
}

result nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return SUCCESS; }

result nvmlDeviceGetCount_v2(unsigned *found) {
    *found = 0;
    for (int index = 0; index < count; index++) *found += !devices[index].parent;
    return SUCCESS;
}

static result open_device(struct device *one, struct device **device) {
    *device = one;
    return count_call(&one->calls[OPEN]);
}

result nvmlDeviceGetHandleByIndex_v2(unsigned wanted, struct device **device) {
    for (int index = 0; index < count; index++)
        if (!devices[index].parent && !wanted--) return open_device(&devices[index], device);
    return NOT_FOUND;
}

result nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device) {
    for (int index = 0; index < count; index++)
        if (!strcmp(devices[index].uuid, uuid)) return open_device(&devices[index], device);
    return NOT_FOUND;
}

/* Compares numbers, because domains have four digits or eight. */
result nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device) {
    unsigned wanted[4] = {0}, candidate[4] = {0};
    sscanf(bus_id, "%x:%x:%x.%x", &wanted[0], &wanted[1], &wanted[2], &wanted[3]);
    for (int index = 0; index < count; index++) {
        sscanf(devices[index].bus_id, "%x:%x:%x.%x", &candidate[0], &candidate[1], &candidate[2], &candidate[3]);
        if (!devices[index].parent && !memcmp(wanted, candidate, sizeof wanted)) return open_device(&devices[index], device);
    }
    return NOT_FOUND;
}

result nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned length) {
    snprintf(uuid, length, "%s", device->uuid);
    return SUCCESS;
}

result nvmlDeviceGetName(struct device *device, char *name, unsigned length) {
    snprintf(name, length, "%s", device->name);
    return SUCCESS;
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

result nvmlDeviceGetPciInfo_v3(struct device *device, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", device->bus_id);
    sscanf(device->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return SUCCESS;
}

result nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

struct memory { unsigned version; unsigned long long total, reserved, free, used; };

result nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory *memory) {
    long long total = 0;
    result code = number64(device, MEMORY, &memory->used);
    if (code) return code;
    next_value(device, TOTAL, &total);
    memory->total = (unsigned long long)total;
    memory->reserved = 0;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

static int is_idle(struct device *device) { return device->calls[IDLE].count && !getenv("CUDA_VISIBLE_DEVICES"); }

static int unless_idle(struct device *device, int which) { return is_idle(device) ? IDLE : which; }

result nvmlDeviceGetPowerUsage(struct device *device, unsigned *milliwatts) {
    return number(device, unless_idle(device, POWER), milliwatts);
}

result nvmlDeviceGetTotalEnergyConsumption(struct device *device, unsigned long long *millijoules) {
    return number64(device, ENERGY, millijoules);
}

result nvmlDeviceGetEnforcedPowerLimit(struct device *device, unsigned *limit) { return number(device, LIMIT, limit); }
result nvmlDeviceGetPowerManagementDefaultLimit(struct device *device, unsigned *limit) {
    return number(device, LIMIT, limit);
}

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    result code;
    union { double number; unsigned whole; unsigned long long wide; } value;
};

result nvmlDeviceGetFieldValues(struct device *device, int fields, struct field *values) {
    enum { POWER_INSTANT = 186, UNSIGNED_INT = 1 };
    for (int index = 0; index < fields; index++) {
        values[index].type = UNSIGNED_INT;
        values[index].code = values[index].id == POWER_INSTANT ? number(device, unless_idle(device, INSTANT), &values[index].value.whole)
                                                               : NOT_SUPPORTED;
    }
    return SUCCESS;
}

enum { SM = 1, MEM = 2 };

result nvmlDeviceGetClockInfo(struct device *device, int type, unsigned *megahertz) {
    return type == SM ? number(device, CLOCK, megahertz)
         : type == MEM ? number(device, MEMORY_CLOCK, megahertz) : NOT_SUPPORTED;
}

result nvmlDeviceGetMaxClockInfo(struct device *device, int type, unsigned *megahertz) {
    return type == SM ? number(device, MAX_CLOCK, megahertz) : NOT_SUPPORTED;
}

result nvmlDeviceGetTemperature(struct device *device, int sensor, unsigned *celsius) {
    return number(device, TEMPERATURE, celsius);
}

result nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device, unsigned long long *bits) {
    return number64(device, THROTTLE, bits);
}

struct utilisation { unsigned gpu, memory; };

result nvmlDeviceGetUtilizationRates(struct device *device, struct utilisation *percent) {
    percent->memory = percent->gpu = 0;
    return is_idle(device) ? SUCCESS : number(device, UTILISATION, &percent->gpu);
}

result nvmlDeviceGetTotalEccErrors(struct device *device, int type, int counter, unsigned long long *errors) {
    return number64(device, ECC, errors);
}

result nvmlDeviceGetEccMode(struct device *device, unsigned *current, unsigned *pending) {
    result code = number(device, ECC_MODE, current);
    *pending = code ? 0 : *current;
    return code;
}

result nvmlDeviceGetPersistenceMode(struct device *device, unsigned *mode) { return number(device, PERSISTENCE, mode); }

result nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending) {
    result code = number(device, MIG, current);
    *pending = code ? 0 : *current;
    return code;
}

result nvmlDeviceIsMigDeviceHandle(struct device *device, unsigned *is) { *is = !!device->parent; return SUCCESS; }

result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *device, struct device **parent) {
    if (!device->parent) return NOT_FOUND;
    return open_device(device->parent, parent);
}

struct listed { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };

/* Callers first pass a list length of 0 to get the count, and then a list. Scripts count both as one call. */
result nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *listed, struct listed *list) {
    struct calls *calls = &device->calls[PROCESSES];
    unsigned room = *listed, here = 0;
    if (!room) {
        if (slow) usleep(slow);
        result any = count_call(&device->calls[ANY]), this = count_call(calls);
        if (any || this) return any ? any : this;
    }
    for (int index = 0; index < device->process_count && !device->hides_processes; index++) {
        const struct process *one = &device->processes[index];
        if (getenv("CUDA_VISIBLE_DEVICES") ? one->visits : one->competes) continue;
        if (calls->made < one->from || (one->to != FOREVER && calls->made > one->to)) continue;
        if (here < room) {
            list[here].pid = one->self ? (unsigned)getpid() : one->pid;
            list[here].bytes = one->hidden ? ~0ull : one->bytes;
            list[here].gpu_instance = list[here].compute_instance = ~0u;
        }
        here++;
    }
    *listed = here;
    return here > room ? INSUFFICIENT_SIZE : SUCCESS;
}
