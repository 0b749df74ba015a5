/* Vulkan layer that corrects the shared-memory declarations of kernels, for tests on lavapipe.
 *
 * On a device without VK_KHR_workgroup_memory_explicit_layout, cubecl-spirv 0.11.3 declares each variable in shared memory with a pointer
 * to a pointer: docs/upstream/cubecl-spirv-shared-memory.md. This layer makes the following change in every shader module and forwards
 * the module to the next layer:
 *
 *   %variable = OpVariable %pointer_to_pointer_to_T Workgroup     changed to     %variable = OpVariable %pointer_to_T Workgroup
 *
 * Valid modules do not declare such a pointer in shared memory and are forwarded unchanged. .ci/lavapipe-tests compiles and loads
 * the layer. If MANTISSA_SPIRV is set to a folder, the layer also writes each module there, before (N.before.spv) and after (N.after.spv)
 * the change.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- SPIR-V ---- */

enum { MAGIC = 0x07230203, HEADER = 5, OP_TYPE_POINTER = 32, OP_VARIABLE = 59, WORKGROUP = 4 };

/* Corrects the variables of a module in place. */
static void repair(uint32_t *words, size_t count) {
    if (count < HEADER || words[0] != MAGIC)
        return;
    uint32_t bound = words[3];
    /* Pointee type of each pointer type in shared memory by its id, or 0. */
    uint32_t *pointee = calloc(bound, sizeof *pointee);
    if (!pointee)
        return;
    size_t length;
    for (size_t at = HEADER; at < count && (length = words[at] >> 16) && length <= count - at; at += length) {
        uint32_t *operands = words + at + 1;
        uint32_t operation = length < 4 ? 0 : words[at] & 0xffff;
        if (operation == OP_TYPE_POINTER && operands[1] == WORKGROUP && operands[0] < bound)
            pointee[operands[0]] = operands[2];
        if (operation == OP_VARIABLE && operands[2] == WORKGROUP && operands[0] < bound) {
            uint32_t inner = pointee[operands[0]];
            if (inner < bound && pointee[inner])
                operands[0] = inner;
        }
    }
    free(pointee);
}

static void dump(unsigned number, const char *when, const void *words, size_t bytes) {
    const char *folder = getenv("MANTISSA_SPIRV");
    if (!folder)
        return;
    char path[4096];
    snprintf(path, sizeof path, "%s/%05u.%s.spv", folder, number, when);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(words, 1, bytes, file);
        fclose(file);
    }
}

/* ---- the layer ---- */

/* Functions of the next layer or the driver, for an instance or a device. The first word of each handle identifies it to the loader, and is
 * the same for an instance and its physical devices. */
struct below {
    void *key;
    VkInstance instance;
    PFN_vkGetInstanceProcAddr instance_function;
    PFN_vkGetDeviceProcAddr device_function;
    PFN_vkCreateShaderModule create_module;
    struct below *next;
};
static struct below *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct below *find(const void *handle) {
    pthread_mutex_lock(&lock);
    struct below *found = all;
    while (found && found->key != *(void *const *)handle)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Entries are never removed. `find` returns the latest entry with a key. */
static VkResult add(struct below below) {
    struct below *added = malloc(sizeof *added);
    if (!added)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    *added = below;
    pthread_mutex_lock(&lock);
    added->next = all;
    all = added;
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkShaderModule *module) {
    static unsigned count;
    uint32_t *words = malloc(info->codeSize);
    if (!words)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(words, info->pCode, info->codeSize);
    repair(words, info->codeSize / sizeof *words);

    unsigned number = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    dump(number, "before", info->pCode, info->codeSize);
    dump(number, "after", words, info->codeSize);

    VkShaderModuleCreateInfo repaired = *info;
    repaired.pCode = words;
    VkResult result = find(device)->create_module(device, &repaired, allocator, module);
    free(words);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkDevice *device) {
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)link->pNext;
    struct below *instance = find(physical);
    if (!link || !instance)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetDeviceProcAddr device_function = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)link->u.pLayerInfo->pfnNextGetInstanceProcAddr(instance->instance, "vkCreateDevice");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(physical, info, allocator, device);
    if (result != VK_SUCCESS)
        return result;
    return add((struct below){
        .key = *(void **)*device,
        .device_function = device_function,
        .create_module = (PFN_vkCreateShaderModule)device_function(*device, "vkCreateShaderModule"),
    });
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                                      VkInstance *instance) {
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)link->pNext;
    if (!link)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)instance_function(NULL, "vkCreateInstance");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS)
        return result;
    return add((struct below){.key = *(void **)*instance, .instance = *instance, .instance_function = instance_function});
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice device, const char *name) {
    if (!strcmp(name, "vkGetDeviceProcAddr"))
        return (PFN_vkVoidFunction)vkGetDeviceProcAddr;
    if (!strcmp(name, "vkCreateShaderModule"))
        return (PFN_vkVoidFunction)create_module;
    struct below *below = find(device);
    return below ? below->device_function(device, name) : NULL;
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name) {
    if (!strcmp(name, "vkGetInstanceProcAddr"))
        return (PFN_vkVoidFunction)vkGetInstanceProcAddr;
    if (!strcmp(name, "vkGetDeviceProcAddr"))
        return (PFN_vkVoidFunction)vkGetDeviceProcAddr;
    if (!strcmp(name, "vkCreateInstance"))
        return (PFN_vkVoidFunction)create_instance;
    if (!strcmp(name, "vkCreateDevice"))
        return (PFN_vkVoidFunction)create_device;
    if (!strcmp(name, "vkCreateShaderModule"))
        return (PFN_vkVoidFunction)create_module;
    struct below *below = instance ? find(instance) : NULL;
    return below ? below->instance_function(instance, name) : NULL;
}
