/*
 * Modules, libraries, kernels, the linker. Images are not looked into but for their size: any name is a function of any
 * module. A kernel whose name ends in _<number>ns, us or ms takes that long (a demangled or mangled name may follow a
 * number likewise).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cuda_impl.h"
#include "driver.h"

#define NAME_ROOM 512

static uint64_t duration_in_name(const char *name) {
    for (const char *at = strchr(name, '_'); at != NULL; at = strchr(at + 1, '_')) {
        char *end = NULL;
        unsigned long long number = strtoull(at + 1, &end, 10);
        if (end == at + 1 || number > 1000000000ull) {
            continue;
        }
        uint64_t unit = strncmp(end, "ns", 2) == 0   ? 1
                        : strncmp(end, "us", 2) == 0 ? 1000
                        : strncmp(end, "ms", 2) == 0 ? 1000000
                                                     : 0;
        if (unit != 0) {
            return number * unit;
        }
    }
    return 0;
}

/* Of a part "_<letter><number>" at the end of a name or before another part; 0 without one. */
static unsigned number_in_name(const char *name, char letter) {
    for (const char *at = strchr(name, '_'); at != NULL; at = strchr(at + 1, '_')) {
        char *end = NULL;
        unsigned long number = at[1] == letter && at[2] >= '0' && at[2] <= '9' ? strtoul(at + 2, &end, 10) : 0;
        if (number > 0 && number <= 1000 && (*end == '\0' || *end == '_')) {
            return (unsigned)number;
        }
    }
    return 0;
}

struct sim_work sim_kernel_work(const struct sim_function *function) {
    return (struct sim_work){.type = SIM_WORK_KERNEL,
                             .duration = sim_kernel_duration(function),
                             .weight = function->weight,
                             .sigma = function->sigma};
}

uint64_t sim_kernel_duration(const struct sim_function *function) {
    return function->duration != 0 ? function->duration : sim_books->launch_ns;
}

/* Bytes of an image that tells: fat binaries do, in their header. */
static uint64_t image_bytes(const unsigned char *image) {
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
    uint16_t header = 0;
    uint64_t body = 0;
    for (unsigned i = 0; i < sizeof magic; i++) {
        if (image[i] != magic[i]) {
            return 0;
        }
    }
    memcpy(&header, image + 6, sizeof header);
    memcpy(&body, image + 8, sizeof body);
    return header + body;
}

static uint64_t file_bytes(const char *name) {
    struct stat found;
    return stat(name, &found) == 0 ? (uint64_t)found.st_size : 0;
}

/* Puts code on the device of a context, once. Small images find room in what the context has taken. */
static CUresult bring_in(struct sim_module *module, struct sim_context *context) {
    struct sim_allocation found;
    CUresult error = CUDA_SUCCESS;
    pthread_mutex_lock(&module->lock);
    if (module->bytes >= SIM_SMALL_LIMIT && module->code == 0) {
        error = sim_allocate(&context->heap, module->bytes, &module->code);
        module->code_id = error == CUDA_SUCCESS && sim_find(module->code, &found) ? found.id : 0;
    }
    pthread_mutex_unlock(&module->lock);
    return error;
}

/* Its context may have ended meanwhile and taken it along. */
static void take_out(const struct sim_module *module) {
    struct sim_allocation found;
    if (module->code != 0 && sim_find(module->code, &found) && found.id == module->code_id) {
        (void)sim_release(module->code);
    }
}

static CUresult module_new(const void *image, uint64_t bytes, struct sim_module **made) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (made == NULL || image == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_module *module = sim_object_new(SIM_TAG_MODULE, sizeof *module);
    if (module == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->context = context;
    module->bytes = bytes;
    pthread_mutex_init(&module->lock, NULL);
    error = bring_in(module, context);
    if (error != CUDA_SUCCESS) {
        sim_object_delete(module);
        return error;
    }
    *made = module;
    return CUDA_SUCCESS;
}

static CUresult module_delete(struct sim_module *module) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(module, SIM_TAG_MODULE)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (struct sim_function *at = module->functions; at != NULL;) {
        struct sim_function *next = at->next;
        sim_object_delete(at);
        at = next;
    }
    take_out(module);
    sim_object_delete(module);
    return CUDA_SUCCESS;
}

static void describe(struct sim_function *function, struct sim_module *module, const char *name) {
    const int32_t *model = sim_books->devices[module->context->device].attributes;
    int capability = model[75] * 10 + model[76];
    function->module = module;
    function->duration = duration_in_name(name);
    function->weight = number_in_name(name, 'w') * (SIM_WHOLE / 100); /* percent of the device */
    function->sigma = number_in_name(name, 's');
    snprintf(function->name, NAME_ROOM, "%s", name);
    function->attributes[0] = 1024; /* threads a block */
    function->attributes[4] = 32;   /* registers */
    function->attributes[5] = function->attributes[6] = capability;
    function->attributes[8] = 49152; /* dynamic shared memory */
    function->attributes[9] = -1;
}

static CUresult function_of(struct sim_module *module, const char *name, struct sim_function **found) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (found == NULL || name == NULL || !sim_is(module, SIM_TAG_MODULE)) {
        return found == NULL || name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    if (*name == '\0') {
        return CUDA_ERROR_NOT_FOUND;
    }
    pthread_mutex_lock(&module->lock);
    struct sim_function *at = module->functions;
    while (at != NULL && strncmp(at->name, name, NAME_ROOM - 1) != 0) {
        at = at->next;
    }
    if (at == NULL) {
        at = sim_object_new(SIM_TAG_FUNCTION, sizeof *at + NAME_ROOM);
        if (at != NULL) {
            describe(at, module, name);
            at->next = module->functions;
            module->functions = at;
            module->count++;
        }
    }
    pthread_mutex_unlock(&module->lock);
    *found = at;
    return at != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult check_file(const char *name) {
    FILE *file = name != NULL ? fopen(name, "rbe") : NULL;
    if (file == NULL) {
        return name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_FILE_NOT_FOUND;
    }
    fclose(file);
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleLoad(CUmodule *module, const char *fname) {
    CUresult error = check_file(fname);
    return error != CUDA_SUCCESS ? error : module_new(fname, file_bytes(fname), module);
}

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image) {
    return module_new(image, image != NULL ? image_bytes(image) : 0, module);
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned numOptions, int *options,
                                void **optionValues) {
    (void)numOptions;
    (void)options;
    (void)optionValues;
    return sim_cuModuleLoadData(module, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    return sim_cuModuleLoadData(module, fatCubin);
}

CUresult sim_cuModuleUnload(CUmodule hmod) {
    return module_delete(hmod);
}

CUresult sim_cuModuleGetLoadingMode(int *mode) {
    if (mode == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
    return function_of(hmod, name, hfunc);
}

CUresult sim_cuModuleGetFunctionCount(unsigned *count, CUmodule mod) {
    if (count == NULL || !sim_is(mod, SIM_TAG_MODULE)) {
        return count == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    *count = mod->count;
    return CUDA_SUCCESS;
}

/* Which globals an image has is not known: none. */
CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
    (void)dptr;
    (void)bytes;
    if (name == NULL || !sim_is(hmod, SIM_TAG_MODULE)) {
        return name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_ERROR_NOT_FOUND;
}

/*
 * Libraries: modules that belong to no context; kernels: functions of theirs. Without a current context the first
 * device describes them. They come to a device when something of theirs is first asked for there.
 */
static CUresult library_new(const void *code, uint64_t bytes, struct sim_module **made) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    static struct sim_context nowhere;
    if (made == NULL || code == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_module *module = sim_object_new(SIM_TAG_MODULE, sizeof *module);
    if (module == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_context *context = sim_current_or_null();
    module->context = context != NULL ? context : &nowhere;
    module->bytes = bytes;
    pthread_mutex_init(&module->lock, NULL);
    *made = module;
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, int *jitOptions, void **jitOptionsValues,
                               unsigned numJitOptions, int *libraryOptions, void **libraryOptionValues,
                               unsigned numLibraryOptions) {
    (void)jitOptions;
    (void)jitOptionsValues;
    (void)numJitOptions;
    (void)libraryOptions;
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    return library_new(code, code != NULL ? image_bytes(code) : 0, library);
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, int *jitOptions, void **jitOptionsValues,
                                   unsigned numJitOptions, int *libraryOptions, void **libraryOptionValues,
                                   unsigned numLibraryOptions) {
    CUresult error = check_file(fileName);
    (void)jitOptions;
    (void)jitOptionsValues;
    (void)numJitOptions;
    (void)libraryOptions;
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    return error != CUDA_SUCCESS ? error : library_new(fileName, file_bytes(fileName), library);
}

CUresult sim_cuLibraryUnload(CUlibrary library) {
    return module_delete(library);
}

CUresult sim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
    return function_of(library, name, pKernel);
}

CUresult sim_cuLibraryGetKernelCount(unsigned *count, CUlibrary lib) {
    return sim_cuModuleGetFunctionCount(count, lib);
}

CUresult sim_cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
    if (pMod == NULL || !sim_is(library, SIM_TAG_MODULE)) {
        return pMod == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    struct sim_context *context = sim_current_or_null();
    CUresult error = context != NULL ? bring_in(library, context) : CUDA_SUCCESS;
    if (error == CUDA_SUCCESS) {
        *pMod = library;
    }
    return error;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    return sim_cuModuleGetGlobal_v2(dptr, bytes, library, name);
}

static CUresult function_check(const struct sim_function *function, const void *output) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(function, SIM_TAG_FUNCTION)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return output != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
    CUresult error = function_check(kernel, pFunc);
    struct sim_context *context = sim_current_or_null();
    if (error == CUDA_SUCCESS && context != NULL) {
        error = bring_in(kernel->module, context);
    }
    if (error == CUDA_SUCCESS) {
        *pFunc = kernel;
    }
    return error;
}

CUresult sim_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
    CUresult error = function_check(kernel, pLib);
    if (error == CUDA_SUCCESS) {
        *pLib = kernel->module;
    }
    return error;
}

CUresult sim_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
    return sim_cuKernelGetLibrary(hmod, hfunc);
}

CUresult sim_cuFuncGetName(const char **name, CUfunction hfunc) {
    CUresult error = function_check(hfunc, name);
    if (error == CUDA_SUCCESS) {
        *name = hfunc->name;
    }
    return error;
}

CUresult sim_cuKernelGetName(const char **name, CUkernel hfunc) {
    return sim_cuFuncGetName(name, hfunc);
}

CUresult sim_cuFuncGetAttribute(int *pi, int attrib, CUfunction hfunc) {
    CUresult error = function_check(hfunc, pi);
    if (error != CUDA_SUCCESS || attrib < 0 || attrib > 17) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *pi = hfunc->attributes[attrib];
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncSetAttribute(CUfunction hfunc, int attrib, int value) {
    CUresult error = function_check(hfunc, hfunc);
    if (error != CUDA_SUCCESS || attrib < 8 || attrib > 17) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    const int32_t *model = sim_books->devices[hfunc->module->context->device].attributes;
    if (attrib == 8 && (value < 0 || value > model[97])) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    hfunc->attributes[attrib] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetAttribute(int *pi, int attrib, CUkernel kernel, CUdevice dev) {
    return sim_gpu_of(dev) == NULL ? CUDA_ERROR_INVALID_DEVICE : sim_cuFuncGetAttribute(pi, attrib, kernel);
}

CUresult sim_cuKernelSetAttribute(int attrib, int val, CUkernel kernel, CUdevice dev) {
    return sim_gpu_of(dev) == NULL ? CUDA_ERROR_INVALID_DEVICE : sim_cuFuncSetAttribute(kernel, attrib, val);
}

CUresult sim_cuFuncSetCacheConfig(CUfunction hfunc, int config) {
    (void)config;
    return function_check(hfunc, hfunc);
}

CUresult sim_cuFuncSetSharedMemConfig(CUfunction hfunc, int config) {
    (void)config;
    return function_check(hfunc, hfunc);
}

CUresult sim_cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice dev) {
    (void)dev;
    return sim_cuFuncSetCacheConfig(kernel, config);
}

CUresult sim_cuFuncIsLoaded(int *state, CUfunction function) {
    CUresult error = function_check(function, state);
    if (error == CUDA_SUCCESS) {
        *state = 1;
    }
    return error;
}

CUresult sim_cuFuncLoad(CUfunction function) {
    return function_check(function, function);
}

/* The linker gives back an image that nobody looks into. */

struct sim_link_state {
    struct sim_object object;
    size_t inputs;
};
static const char linked_image[] = "simulated cubin";

CUresult sim_cuLinkCreate_v2(unsigned numOptions, int *options, void **optionValues, CUlinkState *stateOut) {
    CUresult error = CUDA_SUCCESS;
    (void)numOptions;
    (void)options;
    (void)optionValues;
    if (sim_current(&error) == NULL || stateOut == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *stateOut = sim_object_new(SIM_TAG_LINK, sizeof **stateOut);
    return *stateOut != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t size, const char *name,
                              unsigned numOptions, int *options, void **optionValues) {
    (void)type;
    (void)name;
    (void)numOptions;
    (void)options;
    (void)optionValues;
    if (!sim_is(state, SIM_TAG_LINK) || data == NULL || size == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    state->inputs++;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkAddFile_v2(CUlinkState state, int type, const char *path, unsigned numOptions, int *options,
                              void **optionValues) {
    (void)type;
    (void)numOptions;
    (void)options;
    (void)optionValues;
    CUresult error = !sim_is(state, SIM_TAG_LINK) ? CUDA_ERROR_INVALID_VALUE : check_file(path);
    if (error == CUDA_SUCCESS) {
        state->inputs++;
    }
    return error;
}

CUresult sim_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
    if (!sim_is(state, SIM_TAG_LINK) || cubinOut == NULL || state->inputs == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *cubinOut = (void *)(uintptr_t)linked_image;
    if (sizeOut != NULL) {
        *sizeOut = sizeof linked_image;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkDestroy(CUlinkState state) {
    if (!sim_is(state, SIM_TAG_LINK)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_object_delete(state);
    return CUDA_SUCCESS;
}
