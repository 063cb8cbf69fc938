/*
 * Contexts. The first context of a process on a device takes a reserve there that the driver does not tell in
 * advance: it is measured in the first process of a container that makes one, and kept in the region. Where NVML does
 * not show that process by its pid this is a guess, which may hold what others took at that time: every process guesses
 * then, and the least is kept.
 */
#include "memory/context.h"

#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/charge.h"
#include "memory/devices.h"
#include "memory/map.h"
#include "parts.h"
#include "policies.h"
#include "threads.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONTEXTS = 256, DEVICES = 64, PROCESSES_READ = 256 };
#define RESERVE_MAX (UINT64_C(8) << 30)
#define GUESS_MAX (UINT64_C(1) << 30)
#define GUESS_MIN (UINT64_C(128) << 20)   /* no context takes much less: somebody has given memory back meanwhile */
#define GUESS_BLIND (UINT64_C(512) << 20) /* where NVML tells nothing: what the largest cards take */

struct entry {
    _Atomic(CUcontext) handle;
    _Atomic CUdevice device;
    _Atomic unsigned references; /* of contexts that this process created; 0: primary, or a view of it */
    _Atomic bool ending;         /* the driver is being asked to, with the device locked */
    _Atomic unsigned whose;      /* id of the context that what is made here belongs to: of a view the primary one */
};

/* Of one CUDA device: how many contexts this process has there, and the reserve charged for them. */
struct device_state {
    atomic_flag busy;
    unsigned contexts;
    _Atomic(CUcontext) primary;
    struct hami_charge reserve;
};

static struct entry table[CONTEXTS]; /* entry 0 stays empty: HAMI_CONTEXT_UNKNOWN */
static struct hami_map greens;       /* green context → number of its device + 1 */
static atomic_flag entering = ATOMIC_FLAG_INIT;
static struct device_state devices[DEVICES];
static _Atomic unsigned epoch = 1; /* moves when a context ends */
static _Atomic unsigned made;      /* contexts since the process began, views counted too */

static _Thread_local struct hami_context last;
static _Thread_local unsigned last_epoch;

/* ---- the table ---- */

static unsigned id_of(CUcontext handle) {
    for (unsigned i = 1; i < CONTEXTS; i++) {
        if (atomic_load_explicit(&table[i].handle, memory_order_acquire) == handle) {
            return i;
        }
    }
    return HAMI_CONTEXT_UNKNOWN;
}

/* Of a device's primary context, or HAMI_CONTEXT_UNKNOWN. */
static unsigned primary_id(CUdevice device) {
    CUcontext primary = atomic_load(&devices[device].primary);
    return primary == NULL ? HAMI_CONTEXT_UNKNOWN : id_of(primary);
}

/* How we know of a context: as it was made, or because some thread has it. */
enum origin { MADE, PRIMARY, MET };

static void note(unsigned id, CUdevice device, enum origin origin) {
    unsigned primary = origin == MET ? primary_id(device) : HAMI_CONTEXT_UNKNOWN;
    atomic_store(&table[id].device, device);
    atomic_store(&table[id].references, origin == MADE);
    atomic_store(&table[id].whose, primary != HAMI_CONTEXT_UNKNOWN ? primary : id);
}

static CUcontext nobodys(unsigned id) {
    return (CUcontext)(void *)&table[id];
}

/*
 * What is known by a handle that a context of another device has is over. If whoever ended it has yet to come back from
 * the driver, the place stays that one's, by a handle that nobody has.
 */
static unsigned still_known(unsigned id, CUdevice device) {
    if (atomic_load(&table[id].device) == device || !atomic_load(&table[id].ending)) {
        return id;
    }
    atomic_store(&table[id].handle, nobodys(id));
    (void)atomic_fetch_add(&epoch, 1); /* threads may remember that one by the handle */
    return HAMI_CONTEXT_UNKNOWN;
}

/*
 * Threads that meet a context at the same time enter it once, and whoever finds it finds its device. Nobody has told us
 * of one that is met but not known: a view of the primary context, in which its memory lies, as green contexts are.
 */
static unsigned enter(CUcontext handle, CUdevice device, enum origin origin) {
    if (device < 0 || device >= DEVICES) {
        return HAMI_CONTEXT_UNKNOWN;
    }
    hami_spin_lock(&entering);
    unsigned id = still_known(id_of(handle), device);
    bool known = id != HAMI_CONTEXT_UNKNOWN;
    for (unsigned i = 1; id == HAMI_CONTEXT_UNKNOWN && i < CONTEXTS; i++) {
        id = atomic_load(&table[i].handle) == NULL ? i : id;
    }
    if (id != HAMI_CONTEXT_UNKNOWN && !(known && origin == MET && atomic_load(&table[id].device) == device)) {
        note(id, device, origin);
        atomic_store(&table[id].handle, handle);
        (void)atomic_fetch_add(&epoch, known); /* threads may remember another one by that handle */
    }
    hami_spin_unlock(&entering);
    return id;
}

bool hami_context_current(struct hami_context *context) {
    CUcontext handle = NULL;
    CUdevice device = 0;
    CUresult (*current)(CUcontext *) = hami_cuda_function("cuCtxGetCurrent");
    if (current == NULL || current(&handle) != CUDA_SUCCESS || handle == NULL) {
        return false;
    }
    unsigned now = atomic_load_explicit(&epoch, memory_order_acquire);
    if (last.handle != handle || last_epoch != now) {
        CUresult (*device_of)(CUdevice *) = hami_cuda_function("cuCtxGetDevice");
        if (device_of == NULL || device_of(&device) != CUDA_SUCCESS) {
            return false;
        }
        last = (struct hami_context){handle, device, atomic_load(&table[enter(handle, device, MET)].whose)};
        last_epoch = now;
    }
    *context = last;
    return true;
}

HAMI_HOT bool hami_context_only_one(void) {
    return atomic_load_explicit(&made, memory_order_relaxed) == 1;
}

HAMI_HOT bool hami_context_assumed(struct hami_context *context) {
    bool same = last.handle != NULL && last_epoch == atomic_load_explicit(&epoch, memory_order_acquire);
    if (same && hami_context_only_one() && hami_state_known_limits()->device_count == 1) {
        *context = last;
        return true;
    }
    return hami_context_current(context);
}

/* ---- the reserve ---- */

/* One thread at a time makes or ends contexts of a device; a context takes the driver some 100 ms. */
static struct device_state *lock_device(CUdevice device) {
    struct device_state *state = &devices[device];
    const struct timespec pause = {0, 100000};
    while (atomic_flag_test_and_set_explicit(&state->busy, memory_order_acquire)) {
        (void)nanosleep(&pause, NULL);
    }
    return state;
}

static void unlock_device(struct device_state *state) {
    atomic_flag_clear_explicit(&state->busy, memory_order_release);
}

struct sample {
    bool told, listed;
    int64_t uncharged; /* what the device has given and the container is not charged for, but contexts */
    unsigned count;
    struct nvml_process processes[PROCESSES_READ];
};

/* A MIG device has its card's place on the bus; what the card's handle tells takes rights that a container lacks. */
static nvmlDevice mig_handle(const char *uuid) {
    nvmlDevice handle = NULL;
    nvmlReturn (*by_uuid)(const char *, nvmlDevice *) = hami_nvml_function("nvmlDeviceGetHandleByUUID");
    return by_uuid != NULL && by_uuid(uuid, &handle) == NVML_SUCCESS ? handle : NULL;
}

static nvmlDevice nvml_handle(CUdevice device) {
    char bus[32];
    nvmlDevice handle = NULL;
    const struct hami_limits *limits = hami_state_known_limits();
    int index = hami_device_of_cuda(limits, device);
    if (index >= 0 && (uint32_t)index < limits->device_count && hami_limits_mig(&limits->devices[index])) {
        return mig_handle(limits->devices[index].uuid);
    }
    CUresult (*bus_id)(char *, int, CUdevice) = hami_cuda_function("cuDeviceGetPCIBusId");
    nvmlReturn (*by_bus)(const char *, nvmlDevice *) = hami_nvml_function("nvmlDeviceGetHandleByPciBusId_v2");
    bool found = bus_id != NULL && by_bus != NULL && bus_id(bus, sizeof bus, device) == CUDA_SUCCESS &&
                 by_bus(bus, &handle) == NVML_SUCCESS;
    return found ? handle : NULL;
}

/* Bytes that the container is charged for on a device, but for contexts. It may wrap: anything may be in the file. */
static uint64_t charged_beside_contexts(CUdevice device) {
    struct hami_region_view *view = hami_state_region(NULL);
    int index = view == NULL ? -1 : hami_device_of_cuda(hami_state_known_limits(), device);
    if (index < 0) {
        return 0;
    }
    uint64_t bytes = hami_ledger_sum(view->region, (unsigned)index) << HAMI_PAGE_SHIFT;
    for (unsigned slot = hami_ledger_slots(view->region); slot-- > 0;) {
        bytes -= atomic_load(&view->region->v1.processes[slot].used[index].context);
    }
    return bytes;
}

/* What is just being taken or given back makes the figure smaller, so the largest of several is nearest. */
static void sample_growth(CUdevice device, nvmlDevice handle, struct sample *s) {
    enum { LOOKS = 3 };
    struct nvml_memory memory;
    nvmlReturn (*info)(nvmlDevice, struct nvml_memory *) = hami_driver_function(HAMI_nvmlDeviceGetMemoryInfo);
    for (unsigned i = 0; i < LOOKS && info(handle, &memory) == NVML_SUCCESS; i++) {
        int64_t now = (int64_t)(memory.used - charged_beside_contexts(device));
        s->uncharged = s->told && s->uncharged > now ? s->uncharged : now;
        s->told = true;
    }
}

/* What the device and this process use now, as NVML sees them. */
static void sample_use(CUdevice device, struct sample *s) {
    memset(s, 0, sizeof *s);
    nvmlReturn (*init)(void) = hami_nvml_function("nvmlInit_v2");
    nvmlReturn (*end)(void) = hami_nvml_function("nvmlShutdown");
    if (init == NULL || end == NULL || init() != NVML_SUCCESS) {
        return;
    }
    nvmlDevice handle = nvml_handle(device);
    if (handle != NULL) {
        nvmlReturn (*list)(nvmlDevice, unsigned *, struct nvml_process *) =
            hami_driver_function(HAMI_nvmlDeviceGetComputeRunningProcesses_v3);
        sample_growth(device, handle, s);
        s->count = PROCESSES_READ;
        s->listed = list(handle, &s->count, s->processes) == NVML_SUCCESS && s->count <= PROCESSES_READ;
        s->count = s->listed ? s->count : 0;
    }
    (void)end();
}

static bool lists(const struct sample *s, uint32_t pid) {
    for (unsigned i = 0; i < s->count; i++) {
        if (s->processes[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/*
 * The reserve, from NVML before and after: this process's own figure where NVML shows it by its pid, which is sure.
 * NVML may speak of the host's pids: a number that was in its list before our first context is somebody else's. Then
 * one of the newcomers in the list is this process; others may have begun at the same time, so the least of their
 * figures is nearest. Where there are none, it is what the device's use has grown by, less what the container took
 * otherwise, which also holds what other containers took and gave back. 0: NVML tells nothing.
 */
static uint64_t measured(const struct sample *before, const struct sample *after, bool *sure) {
    const uint64_t not_available = UINT64_MAX;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < after->count; i++) {
        const struct nvml_process *at = &after->processes[i];
        if (!before->listed || at->used == 0 || at->used == not_available || lists(before, at->pid)) {
            continue;
        }
        if (at->pid == (uint32_t)getpid()) {
            *sure = true;
            return at->used < RESERVE_MAX ? at->used : RESERVE_MAX;
        }
        least = at->used < least ? at->used : least;
    }
    *sure = false;
    if (least == UINT64_MAX && before->told && after->told && after->uncharged > before->uncharged) {
        least = (uint64_t)after->uncharged - (uint64_t)before->uncharged;
    }
    return least == UINT64_MAX ? 0 : least < GUESS_MIN ? GUESS_MIN : least < GUESS_MAX ? least : GUESS_MAX;
}

/* What a context is taken to need from now on, in pages. */
static uint64_t agree(struct hami_device *device, uint64_t bytes, bool sure) {
    uint64_t pages = bytes >> HAMI_PAGE_SHIFT, known = atomic_load(&device->context_pages);
    if (sure) {
        atomic_store(&device->context_pages, pages);
        atomic_store(&device->context_guessed, 0);
        return pages;
    }
    if (known == 0 || (atomic_load(&device->context_guessed) != 0 && pages != 0 && pages < known)) {
        uint64_t guess = pages != 0 ? pages : GUESS_BLIND >> HAMI_PAGE_SHIFT;
        atomic_store(&device->context_guessed, 1);
        known = atomic_compare_exchange_strong(&device->context_pages, &known, guess) ? guess : known;
    } /* what somebody else has found meanwhile is as good, and may be sure */
    return known;
}

static struct hami_device *counted(CUdevice device) {
    const struct hami_limits *limits = hami_state_limits();
    struct hami_region_view *view = limits->mode == HAMI_MODE_OFF ? NULL : hami_state_region(NULL);
    int index = view == NULL ? -1 : hami_device_of_cuda(limits, device);
    return index < 0 ? NULL : &view->region->block.devices[index];
}

/* A context about to be made. */
struct making {
    struct device_state *state;
    CUdevice device;
    struct hami_device *counted; /* NULL: nobody counts */
    bool primary;
    bool first; /* of this process on the device */
    bool measure;
    struct sample before;
};

/* Whether it is not known for sure what a context takes: `pages` is what it is taken to. */
static bool unmeasured(const struct hami_device *device, uint64_t pages) {
    return pages == 0 || atomic_load(&device->context_guessed) != 0;
}

/* Locks the device and reserves. False: refuse; the device is unlocked then. */
static bool begin(struct making *m, CUdevice device) {
    memset(m, 0, sizeof *m);
    if (device < 0 || device >= DEVICES || hami_state_limits()->mode == HAMI_MODE_OFF) {
        return true;
    }
    m->device = device;
    m->counted = counted(device);
    if (m->counted != NULL && unmeasured(m->counted, atomic_load(&m->counted->context_pages))) {
        hami_nvml_load(); /* not under the lock: the loader may be busy with one who waits for that */
    }
    m->state = lock_device(device);
    m->first = m->state->contexts == 0;
    if (!m->first) {
        return true;
    }
    uint64_t pages = m->counted == NULL ? 0 : atomic_load(&m->counted->context_pages);
    if (!hami_charge_take(device, pages << HAMI_PAGE_SHIFT, HAMI_COLUMN_CONTEXT, &m->state->reserve)) {
        unlock_device(m->state);
        return false;
    }
    m->measure = m->counted != NULL && unmeasured(m->counted, pages);
    if (m->measure) {
        sample_use(device, &m->before);
    }
    return true;
}

static void cancel(struct making *m) {
    if (m->state == NULL) {
        return;
    }
    if (m->first) {
        hami_charge_give_back(&m->state->reserve, HAMI_COLUMN_CONTEXT);
        m->state->reserve = (struct hami_charge){-1, 0};
    }
    unlock_device(m->state);
}

/* Charges what the first context was seen to take. False: it does not fit. */
static bool settle(struct making *m) {
    struct sample after;
    struct hami_charge *reserve = &m->state->reserve, more = {-1, 0};
    bool sure = false;
    sample_use(m->device, &after);
    uint64_t bytes = measured(&m->before, &after, &sure);
    uint64_t pages = agree(m->counted, bytes, sure);
    if (pages < reserve->pages) {
        struct hami_charge less = {reserve->device, reserve->pages - pages};
        hami_charge_give_back(&less, HAMI_COLUMN_CONTEXT);
        reserve->pages = pages;
        return true;
    }
    if (!hami_charge_take(m->device, (pages - reserve->pages) << HAMI_PAGE_SHIFT, HAMI_COLUMN_CONTEXT, &more)) {
        return false;
    }
    if (more.device >= 0) { /* else there is no limit any more, and what was charged before stays so */
        *reserve = (struct hami_charge){more.device, pages};
    }
    return true;
}

/* False: it does not fit, or there is none. The caller must end the context and then cancel: it has its reserve until
 * it is gone. */
static bool keep(struct making *m, CUcontext handle) {
    (void)atomic_fetch_add(&made, 1);
    if (m->state == NULL) {
        return true;
    }
    if (handle == NULL || (m->measure && !settle(m))) {
        return false;
    }
    (void)enter(handle, m->device, m->primary ? PRIMARY : MADE);
    m->state->contexts++;
    m->state->primary = m->primary ? handle : m->state->primary;
    unlock_device(m->state);
    return true;
}

/* ---- ends ---- */

/*
 * Before the driver is asked to end a context of a locked device. Its handle may be another's on another device before
 * the driver has come back, but its id is its own until `over`. False: the handle is another's already.
 */
static bool begin_end(unsigned id, CUcontext handle, const struct device_state *state) {
    hami_spin_lock(&entering);
    bool same = atomic_load(&table[id].handle) == handle && &devices[atomic_load(&table[id].device)] == state;
    if (same) {
        atomic_store(&table[id].ending, true);
    }
    hami_spin_unlock(&entering);
    if (same) {
        HAMI_TELL(context_ending, handle);
        HAMI_TELL(context_freed, id, true);
    }
    return same;
}

/* What lay in it is free again. */
static void forget(unsigned id) {
    (void)atomic_fetch_add(&epoch, 1);
    HAMI_TELL(context_ended, id);
    atomic_store(&table[id].references, 0);
}

/* Afterwards, whatever the driver has answered. */
static void over(unsigned id, bool gone) {
    HAMI_TELL(context_freed, id, false);
    hami_spin_lock(&entering);
    atomic_store(&table[id].ending, false);
    if (gone || atomic_load(&table[id].handle) == nobodys(id)) {
        atomic_store(&table[id].handle, NULL);
    }
    hami_spin_unlock(&entering);
}

/* The reserve goes with the last context of the device. */
static void one_less(struct device_state *state) {
    if (state->contexts > 0 && --state->contexts == 0) {
        hami_charge_give_back(&state->reserve, HAMI_COLUMN_CONTEXT);
        state->reserve = (struct hami_charge){-1, 0};
    }
}

/* Locks the device of a context that is about to end, and finds its id; NULL if it is not known. */
static struct device_state *lock_and_begin_end(CUcontext context, unsigned *id) {
    while ((*id = context == NULL ? HAMI_CONTEXT_UNKNOWN : id_of(context)) != HAMI_CONTEXT_UNKNOWN) {
        struct device_state *state = lock_device(atomic_load(&table[*id].device));
        if (begin_end(*id, context, state)) {
            return state;
        }
        unlock_device(state);
    }
    return NULL;
}

static CUresult end_created(CUresult (*driver)(CUcontext), CUcontext context) {
    unsigned id = HAMI_CONTEXT_UNKNOWN;
    HAMI_UNCANCELLED;
    struct device_state *state = lock_and_begin_end(context, &id);
    if (state == NULL) {
        HAMI_TELL(context_ending, context);
        return driver(context);
    }
    bool made_here = atomic_load(&table[id].references) > 0;
    CUresult status = driver(context);
    if (status == CUDA_SUCCESS) {
        forget(id);
        if (made_here) {
            one_less(state);
        }
    }
    over(id, status == CUDA_SUCCESS);
    unlock_device(state);
    return status;
}

/* The primary context of a locked device and the views of it, which end with it. */
static bool is_primary(unsigned id, const struct device_state *state) {
    return state->primary != NULL && atomic_load(&table[id].handle) != NULL &&
           atomic_load(&table[id].references) == 0 && &devices[atomic_load(&table[id].device)] == state;
}

/* The driver is about to take a reference of it away, which may be the last. */
static void begin_end_of_primary(const struct device_state *state) {
    CUcontext primary = atomic_load(&state->primary);
    if (primary != NULL && id_of(primary) == HAMI_CONTEXT_UNKNOWN) {
        HAMI_TELL(context_ending, primary);
    }
    for (unsigned i = 1; i < CONTEXTS; i++) {
        if (is_primary(i, state) && !atomic_load(&table[i].ending)) {
            (void)begin_end(i, atomic_load(&table[i].handle), state);
        }
    }
}

static bool primary_is_active(CUdevice device) {
    unsigned flags = 0;
    int active = 1;
    CUresult (*get)(CUdevice, unsigned *, int *) = hami_cuda_function("cuDevicePrimaryCtxGetState");
    return get == NULL || get(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

static void primary_over(struct device_state *state, CUdevice device) {
    bool gone = state->primary != NULL && !primary_is_active(device);
    if (gone) { /* views may have been met since */
        begin_end_of_primary(state);
    }
    for (unsigned i = 1; i < CONTEXTS; i++) {
        if (!is_primary(i, state) || !atomic_load(&table[i].ending)) {
            continue;
        }
        if (gone) {
            forget(i);
        }
        over(i, gone);
    }
    if (gone) {
        state->primary = NULL;
        (void)atomic_fetch_add(&epoch, 1);
        one_less(state);
    }
}

/* ---- policies ---- */

int32_t hami_primary_retain(enum hami_hook hook, CUcontext *context, int32_t device) {
    CUresult (*driver)(CUcontext *, CUdevice) = hami_driver_function(hook);
    struct making m;
    HAMI_UNCANCELLED; /* a device is locked meanwhile */
    if (context == NULL) {
        return driver(context, device);
    }
    if (!begin(&m, device)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(context, device);
    if (m.state != NULL && m.state->primary != NULL) {
        unlock_device(m.state); /* one more reference, nothing more taken */
        return status;
    }
    if (status != CUDA_SUCCESS) {
        cancel(&m);
        return status;
    }
    m.primary = true;
    if (keep(&m, *context)) {
        return CUDA_SUCCESS;
    }
    CUresult (*release)(CUdevice) = hami_driver_function(HAMI_cuDevicePrimaryCtxRelease_v2);
    (void)release(device);
    cancel(&m);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

int32_t hami_primary_release(enum hami_hook hook, int32_t device) {
    CUresult (*driver)(CUdevice) = hami_driver_function(hook);
    if (device < 0 || device >= DEVICES) {
        return driver(device);
    }
    HAMI_UNCANCELLED;
    struct device_state *state = lock_device(device);
    begin_end_of_primary(state);
    CUresult status = driver(device);
    primary_over(state, device);
    unlock_device(state);
    return status;
}

int32_t hami_primary_reset(enum hami_hook hook, int32_t device) {
    return hami_primary_release(hook, device);
}

static int32_t created(struct making *m, CUresult status, const CUcontext *context) {
    if (status != CUDA_SUCCESS) {
        cancel(m);
        return status;
    }
    if (keep(m, *context)) {
        return CUDA_SUCCESS;
    }
    CUresult (*destroy)(CUcontext) = hami_driver_function(HAMI_cuCtxDestroy_v2);
    (void)destroy(*context);
    cancel(m);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

int32_t hami_ctx_create(enum hami_hook hook, CUcontext *context, uint32_t flags, int32_t device) {
    CUresult (*driver)(CUcontext *, uint32_t, CUdevice) = hami_driver_function(hook);
    struct making m;
    HAMI_UNCANCELLED; /* a device is locked meanwhile */
    if (!begin(&m, device)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return created(&m, driver(context, flags, device), context);
}

int32_t hami_ctx_create_v3(enum hami_hook hook, CUcontext *context, void *affinity, int32_t count, uint32_t flags,
                           int32_t device) {
    CUresult (*driver)(CUcontext *, void *, int32_t, uint32_t, CUdevice) = hami_driver_function(hook);
    struct making m;
    HAMI_UNCANCELLED; /* a device is locked meanwhile */
    if (!begin(&m, device)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return created(&m, driver(context, affinity, count, flags, device), context);
}

int32_t hami_ctx_create_v4(enum hami_hook hook, CUcontext *context, void *params, uint32_t flags, int32_t device) {
    CUresult (*driver)(CUcontext *, void *, uint32_t, CUdevice) = hami_driver_function(hook);
    struct making m;
    HAMI_UNCANCELLED; /* a device is locked meanwhile */
    if (!begin(&m, device)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return created(&m, driver(context, params, flags, device), context);
}

int32_t hami_ctx_create_vdpau(enum hami_hook hook, CUcontext *context, uint32_t flags, int32_t device,
                              uint32_t vdpau_device, void *get_proc_address) {
    CUresult (*driver)(CUcontext *, uint32_t, CUdevice, uint32_t, void *) = hami_driver_function(hook);
    struct making m;
    HAMI_UNCANCELLED; /* a device is locked meanwhile */
    if (!begin(&m, device)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return created(&m, driver(context, flags, device, vdpau_device, get_proc_address), context);
}

int32_t hami_ctx_destroy(enum hami_hook hook, CUcontext context) {
    return end_created(hami_driver_function(hook), context);
}

int32_t hami_ctx_attach(enum hami_hook hook, CUcontext *context, uint32_t flags) {
    CUresult (*driver)(CUcontext *, uint32_t) = hami_driver_function(hook);
    CUresult status = driver(context, flags);
    unsigned id = status == CUDA_SUCCESS && context != NULL ? id_of(*context) : HAMI_CONTEXT_UNKNOWN;
    if (id != HAMI_CONTEXT_UNKNOWN && atomic_load(&table[id].references) > 0) {
        (void)atomic_fetch_add(&table[id].references, 1);
    }
    return status;
}

int32_t hami_ctx_detach(enum hami_hook hook, CUcontext context) {
    CUresult (*driver)(CUcontext) = hami_driver_function(hook);
    unsigned id = context == NULL ? HAMI_CONTEXT_UNKNOWN : id_of(context);
    unsigned references = atomic_load(&table[id].references);
    while (id != HAMI_CONTEXT_UNKNOWN && references > 1) {
        if (atomic_compare_exchange_weak(&table[id].references, &references, references - 1)) {
            CUresult status = driver(context);
            if (status != CUDA_SUCCESS) {
                (void)atomic_fetch_add(&table[id].references, 1);
            }
            return status;
        }
    }
    return id != HAMI_CONTEXT_UNKNOWN && references == 1 ? end_created(driver, context) : driver(context);
}

/* ---- green contexts ---- */

/* The primary context, which is there: a reference taken and given back at once. */
static CUcontext primary_of(CUdevice device) {
    CUcontext primary = NULL;
    CUresult (*retain)(CUcontext *, CUdevice) = hami_driver_function(HAMI_cuDevicePrimaryCtxRetain);
    CUresult (*release)(CUdevice) = hami_driver_function(HAMI_cuDevicePrimaryCtxRelease_v2);
    if (retain(&primary, device) == CUDA_SUCCESS) {
        (void)release(device);
    }
    return primary;
}

/* Which device a green context is on is not to be asked; 0: it is not known. */
static void note_green(const void *green, uint64_t device_and_one) {
    if (green != NULL && device_and_one != 0) {
        (void)hami_map_put(&greens, (uint64_t)(uintptr_t)green, device_and_one);
    }
}

static bool is_view(unsigned id) {
    return atomic_load(&table[id].handle) != NULL && atomic_load(&table[id].whose) != id;
}

/* Id of the context that stands for a green one, if any thread has had it. */
static unsigned view_by(void *green) {
    CUcontext handle = NULL;
    CUresult (*get)(CUcontext *, void *) = hami_cuda_function("cuCtxFromGreenCtx");
    bool any = false;
    for (unsigned i = 1; i < CONTEXTS && !any; i++) {
        any = is_view(i);
    }
    bool told = any && get != NULL && get(&handle, green) == CUDA_SUCCESS && handle != NULL;
    return told ? id_of(handle) : HAMI_CONTEXT_UNKNOWN;
}

/* A green context holds the primary one, with its reserve, and its memory lies there. */
int32_t hami_green_create(enum hami_hook hook, void **green, void *resources, int32_t device, uint32_t flags) {
    CUresult (*driver)(void **, void *, CUdevice, uint32_t) = hami_driver_function(hook);
    struct making m;
    HAMI_UNCANCELLED; /* a device is locked meanwhile */
    if (green == NULL) {
        return driver(green, resources, device, flags);
    }
    if (!begin(&m, device)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(green, resources, device, flags);
    (void)atomic_fetch_add(&made, 2); /* with a view, the primary one is not the only one */
    if (status == CUDA_SUCCESS && m.state != NULL) {
        note_green(*green, (uint64_t)device + 1);
    }
    if (m.state != NULL && m.state->primary != NULL) {
        unlock_device(m.state);
        return status;
    }
    if (status != CUDA_SUCCESS) {
        cancel(&m);
        return status;
    }
    m.primary = true;
    if (keep(&m, primary_of(device))) {
        return CUDA_SUCCESS;
    }
    CUresult (*destroy)(void *) = hami_driver_function(HAMI_cuGreenCtxDestroy);
    (void)hami_map_take(&greens, (uint64_t)(uintptr_t)*green);
    (void)destroy(*green);
    cancel(&m);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Where it is not known which device it was on, the primary contexts say which of them has ended. */
int32_t hami_green_destroy(enum hami_hook hook, void *green) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    uint64_t on = green == NULL ? 0 : hami_map_take(&greens, (uint64_t)(uintptr_t)green);
    unsigned view = green == NULL ? HAMI_CONTEXT_UNKNOWN : view_by(green);
    bool locked[DEVICES] = {false};
    HAMI_UNCANCELLED;
    for (CUdevice device = 0; device < DEVICES; device++) {
        locked[device] = devices[device].primary != NULL && (on == 0 || on == (uint64_t)device + 1);
        if (locked[device]) {
            begin_end_of_primary(lock_device(device));
        }
    }
    CUresult status = driver(green);
    if (status == CUDA_SUCCESS && is_view(view) && atomic_load(&table[view].ending)) {
        (void)atomic_fetch_add(&epoch, 1);
        over(view, true);
    } else if (status != CUDA_SUCCESS) {
        note_green(green, on);
    }
    for (CUdevice device = 0; device < DEVICES; device++) {
        if (locked[device]) {
            primary_over(&devices[device], device);
            unlock_device(&devices[device]);
        }
    }
    return status;
}

void hami_contexts_after_fork(void) {
    memset(table, 0, sizeof table);
    atomic_flag_clear(&entering);
    hami_map_reset(&greens);
    memset(&last, 0, sizeof last);
    atomic_store(&made, 0);
    for (unsigned i = 0; i < DEVICES; i++) {
        atomic_flag_clear(&devices[i].busy);
        devices[i].contexts = 0;
        devices[i].primary = NULL;
        devices[i].reserve = (struct hami_charge){-1, 0};
    }
}
