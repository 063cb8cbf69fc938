/*
 * This process as a guest of its container's limits: made at the first call that needs it, current ever after.
 * A process that never gets here opens no file and keeps no state.
 */
#ifndef HAMI_GUEST_H
#define HAMI_GUEST_H

#include "cuda_abi.h"
#include "doors/hook.h"
#include "ledger/limits.h"
#include "ledger/region.h"

/* What hot calls look at: both NULL until this process has started, the region also while it has no slot there. */
extern _Atomic(const struct hami_limits *) hami_guest_limits_now;
extern _Atomic(struct hami_region_view *) hami_guest_region_now;

/* The limits in force; looks at the file again at most four times a second. Never NULL. */
const struct hami_limits *hami_guest_limits(void);

/* The limits as of the last look, for what follows a call of the above. */
HAMI_COLD const struct hami_limits *hami_guest_started_limits(void);
static inline const struct hami_limits *hami_guest_known_limits(void) {
    const struct hami_limits *limits = atomic_load_explicit(&hami_guest_limits_now, memory_order_acquire);
    return HAMI_LIKELY(limits != NULL) ? limits : hami_guest_started_limits();
}

/* Where the turn page of a device would lie. False: no limits folder is mounted. */
bool hami_guest_turn_path(const char *uuid, char path[4096]);

void hami_guest_after_fork(void);

/* Looks at the limits file now. True if it holds others than before. */
HAMI_COLD bool hami_guest_reload(void);

/* The region, with a slot of this process, or NULL with the reason in *why (which may be NULL). */
HAMI_COLD struct hami_region_view *hami_guest_claimed_region(enum hami_reason *why);
static inline struct hami_region_view *hami_guest_region(enum hami_reason *why) {
    struct hami_region_view *view = atomic_load_explicit(&hami_guest_region_now, memory_order_acquire);
    return HAMI_LIKELY(view != NULL) ? view : hami_guest_claimed_region(why);
}

/* The region where it is mapped, for what needs no slot of this process's own; or NULL. */
struct hami_region_view *hami_guest_mapped_region(void);

enum { HAMI_CUDA_DEVICES = 64 };
extern _Atomic int8_t hami_guest_cuda_devices[HAMI_CUDA_DEVICES]; /* index + 2; 1 = not named; 0 = not asked yet */
HAMI_COLD int hami_guest_ask_cuda_device(const struct hami_limits *limits, CUdevice device);

/* Index of a CUDA device in the limits, -1 if they do not name it, -2 if to the driver there is no such device now. */
static inline int hami_guest_cuda_device(const struct hami_limits *limits, CUdevice device) {
    if (device < 0 || device >= HAMI_CUDA_DEVICES) {
        return -2;
    }
    int8_t known = atomic_load_explicit(&hami_guest_cuda_devices[device], memory_order_acquire);
    return HAMI_LIKELY(known != 0) ? known - 2 : hami_guest_ask_cuda_device(limits, device);
}

/*
 * Same for an NVML handle; HAMI_DIVIDED for a card that the limits do not name, but MIG devices of it, or none while
 * they deny all. `status` gets the driver's answer if it refuses the handle.
 */
enum { HAMI_DIVIDED = -3 };
int hami_guest_nvml_device(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status);

/* The MIG devices of such a card that the limits name; returns how many. */
struct hami_part {
    unsigned index;
    nvmlDevice handle;
};
unsigned hami_guest_parts(const struct hami_limits *limits, nvmlDevice card, struct hami_part parts[HAMI_DEVICES]);

#endif
