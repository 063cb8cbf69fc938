/*
 * Processes that are suspended, by themselves or by others: RUNNING, LOCKED, CHECKPOINTED and back. Their state lies in
 * the books, so nobody needs to run in the process itself; its calls wait at a gate that every exported function has.
 * A checkpoint moves what the process takes of each device into its entry in the books; a restore takes it anew.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cuda_impl.h"
#include "driver.h"

enum { GATE_US = 200 };

/* ---- the gate ---- */

/* Somebody who died while it waited for our calls locks nobody any more. */
static void overrule_the_dead(struct sim_suspension *own) {
    uint32_t holder = atomic_load(&own->lock), locking = SIM_LOCKING;
    if (holder == 0 || sim_slot_pid(holder - 1) == 0) {
        (void)atomic_compare_exchange_strong(&own->state, &locking, SIM_RUNNING);
    }
}

struct sim_suspension *sim_gate_wait(struct sim_suspension *own) {
    do {
        atomic_fetch_sub(&own->inside, 1);
        for (unsigned tries = 1; atomic_load(&own->state) != SIM_RUNNING; tries++) {
            usleep(GATE_US);
            if (tries % 64 == 0 && atomic_load(&own->state) == SIM_LOCKING) {
                overrule_the_dead(own);
            }
        }
        atomic_fetch_add(&own->inside, 1);
    } while (atomic_load(&own->state) != SIM_RUNNING);
    return own;
}

/* ---- whose state ---- */

static int slot_of(int pid) {
    unsigned limit = atomic_load(&sim_books->slot_limit);
    for (unsigned slot = 0; pid > 0 && slot < limit; slot++) {
        if (sim_slot_pid(slot) == pid) {
            return (int)slot;
        }
    }
    return -1;
}

static bool is_zero(const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0 && at[size - 1] == 0) {
        size--;
    }
    return size == 0;
}

/* The process with this pid, for the caller alone until it gives it back; NULL with *error set. */
static struct sim_suspension *take(int pid, int *slot, CUresult *error) {
    *error = sim_ready();
    *slot = *error == CUDA_SUCCESS ? slot_of(pid) : -1;
    if (*error == CUDA_SUCCESS && *slot < 0) {
        *error = CUDA_ERROR_INVALID_VALUE;
    }
    if (*error == CUDA_SUCCESS && kill(pid, 0) != 0 && errno == EPERM) {
        *error = CUDA_ERROR_OPERATING_SYSTEM; /* another user's */
    }
    if (*error != CUDA_SUCCESS) {
        return NULL;
    }
    struct sim_suspension *process = &sim_books->suspensions[*slot];
    sim_engine_lock(&process->lock);
    return process;
}

static CUresult give_back(struct sim_suspension *process, CUresult result) {
    sim_engine_unlock(&process->lock);
    return result;
}

/* As others see it: whoever was about to lock it and is gone has not. */
static int state_of(const struct sim_suspension *process) {
    uint32_t state = atomic_load(&process->state);
    return state == SIM_LOCKING ? SIM_RUNNING : (int)state;
}

/* ---- locking ---- */

static bool at_rest(const struct sim_suspension *process, unsigned slot) {
    return atomic_load(&process->inside) == 0 && sim_engine_idle(slot);
}

CUresult sim_cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
    CUresult error = CUDA_SUCCESS;
    int slot = -1;
    if (args != NULL && (args->reserved0 != 0 || !is_zero(args->reserved1, sizeof args->reserved1))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_suspension *process = take(pid, &slot, &error);
    if (process == NULL) {
        return error;
    }
    if (state_of(process) != SIM_RUNNING) {
        return give_back(process, CUDA_ERROR_ILLEGAL_STATE);
    }
    uint64_t patience = args != NULL ? args->timeoutMs * 1000000ull : 0, began = sim_now();
    atomic_store(&process->state, SIM_LOCKING);
    while (!at_rest(process, (unsigned)slot)) {
        bool late = patience != 0 && sim_now() - began >= patience;
        if (late || sim_slot_pid((unsigned)slot) != pid) {
            atomic_store(&process->state, SIM_RUNNING);
            return give_back(process, late ? CUDA_ERROR_NOT_READY : CUDA_ERROR_INVALID_VALUE);
        }
        usleep(GATE_US);
    }
    atomic_store(&process->state, SIM_LOCKED);
    return give_back(process, CUDA_SUCCESS);
}

CUresult sim_cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args) {
    CUresult error = CUDA_SUCCESS;
    int slot = -1;
    if (args != NULL && !is_zero(args, sizeof *args)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_suspension *process = take(pid, &slot, &error);
    if (process == NULL) {
        return error;
    }
    uint32_t locked = SIM_LOCKED;
    bool done = atomic_compare_exchange_strong(&process->state, &locked, SIM_RUNNING);
    return give_back(process, done ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE);
}

/* ---- away and back ---- */

/* Unified memory, and memory that other processes may hold. */
static bool cannot_leave(const struct sim_suspension *process, unsigned slot) {
    bool shares = false;
    for (unsigned entry = 0; entry < atomic_load(&sim_books->shared_limit); entry++) {
        shares = shares || (atomic_load(&sim_books->shared[entry].holders[slot / 64]) >> (slot % 64) & 1) != 0;
    }
    return shares || atomic_load(&process->managed) != 0;
}

CUresult sim_cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args) {
    CUresult error = CUDA_SUCCESS;
    int slot = -1;
    if (args != NULL && !is_zero(args, sizeof *args)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_suspension *process = take(pid, &slot, &error);
    if (process == NULL) {
        return error;
    }
    if (state_of(process) != SIM_LOCKED) {
        return give_back(process, CUDA_ERROR_ILLEGAL_STATE);
    }
    if (cannot_leave(process, (unsigned)slot)) {
        atomic_store(&process->state, SIM_FAILED); /* a driver does not keep it in a good state then */
        return give_back(process, CUDA_ERROR_NOT_SUPPORTED);
    }
    unsigned devices = atomic_load(&sim_books->device_limit);
    for (unsigned device = 0; device < devices; device++) {
        process->away[device] = atomic_load(&sim_books->used[device][slot]);
    }
    /* Before the words: a restore sets them right, whatever they say. */
    atomic_store(&process->state, SIM_CHECKPOINTED);
    for (unsigned device = 0; device < devices; device++) {
        atomic_store(&sim_books->used[device][slot], 0);
    }
    return give_back(process, CUDA_SUCCESS);
}

static bool is_remap(const CUcheckpointRestoreArgs *args) {
    for (unsigned i = 0; args != NULL && i < args->gpuPairsCount; i++) {
        if (memcmp(&args->gpuPairs[i].oldUuid, &args->gpuPairs[i].newUuid, sizeof(CUuuid)) != 0) {
            return true;
        }
    }
    return false;
}

static bool come_back(const struct sim_suspension *process, int slot) {
    unsigned device = 0, devices = atomic_load(&sim_books->device_limit);
    for (unsigned i = 0; i < devices; i++) {
        atomic_store(&sim_books->used[i][slot], 0); /* whoever was at it before us may have died half way */
    }
    while (device < devices && (process->away[device] == 0 || sim_charge_slot(device, slot, process->away[device]))) {
        device++;
    }
    for (unsigned i = 0; device < devices && i < device; i++) {
        atomic_store(&sim_books->used[i][slot], 0);
    }
    return device == devices;
}

CUresult sim_cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
    CUresult error = CUDA_SUCCESS;
    int slot = -1;
    if (args != NULL && ((args->gpuPairsCount != 0 && args->gpuPairs == NULL) || args->reserved1 != 0 ||
                         !is_zero(args->reserved, sizeof args->reserved))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_suspension *process = take(pid, &slot, &error);
    if (process == NULL) {
        return error;
    }
    if (state_of(process) != SIM_CHECKPOINTED) {
        return give_back(process, CUDA_ERROR_ILLEGAL_STATE);
    }
    if (is_remap(args)) {
        return give_back(process, CUDA_ERROR_NOT_SUPPORTED);
    }
    if (atomic_load(&process->spoiled) != 0) {
        return give_back(process, CUDA_ERROR_OPERATING_SYSTEM);
    }
    if (!come_back(process, slot)) {
        atomic_store(&process->spoiled, 1); /* as driver 580 does: no later attempt succeeds */
        return give_back(process, CUDA_ERROR_OUT_OF_MEMORY);
    }
    atomic_store(&process->state, SIM_LOCKED);
    return give_back(process, CUDA_SUCCESS);
}

/* ---- questions ---- */

CUresult sim_cuCheckpointProcessGetState(int pid, CUprocessState *state) {
    CUresult error = sim_ready();
    int slot = error == CUDA_SUCCESS ? slot_of(pid) : -1;
    if (error == CUDA_SUCCESS && (slot < 0 || state == NULL)) {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    if (error == CUDA_SUCCESS) {
        *state = state_of(&sim_books->suspensions[slot]);
    }
    return error;
}

/* Nothing runs in the process for its restore: its first thread is as good as any. */
CUresult sim_cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
    CUresult error = sim_ready();
    if (error == CUDA_SUCCESS && (slot_of(pid) < 0 || tid == NULL)) {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    if (error == CUDA_SUCCESS) {
        *tid = pid;
    }
    return error;
}
