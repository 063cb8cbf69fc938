/* Charges a pool for what the driver has reserved for it (driver_pool.h). */
#include "memory/driver_pool.h"

#include "memory/sizes.h"

void hami_driver_pool_init(struct hami_driver_pool *pool, const struct hami_pool_kind *kind, CUdevice device) {
    pool->kind = kind;
    pool->device = device;
    pool->charge = (struct hami_charge){-1, 0};
    pool->share = -1;
}

uint64_t hami_driver_pool_pages(const struct hami_driver_pool *pool, bool *told) {
    uint64_t bytes = 0;
    *told = pool->kind->reserved(pool, &bytes);
    return *told ? (bytes + (1u << HAMI_PAGE_SHIFT) - 1) >> HAMI_PAGE_SHIFT : pool->charge.pages;
}

bool hami_driver_pool_tell_size(struct hami_driver_pool *pool, uint64_t pages) {
    bool exported = pool->share >= 0 && pool->charge.device >= 0;
    if (exported) {
        hami_shared_resize(pool->share, &pool->charge, pages);
    }
    return exported;
}

bool hami_driver_pool_reconcile(struct hami_driver_pool *pool) {
    bool told = true;
    if (pool->charge.device < 0) {
        return true;
    }
    uint64_t pages = hami_driver_pool_pages(pool, &told);
    if (hami_driver_pool_tell_size(pool, pages)) {
        return told;
    }
    hami_charge_lower(&pool->charge, HAMI_COLUMN_DATA, pages);
    if (pages > pool->charge.pages) { /* the driver has made the pool grow, which cannot be undone */
        hami_charge_found(pool->device, HAMI_COLUMN_DATA, &pool->charge, pages - pool->charge.pages);
    }
    return told;
}

bool hami_driver_pool_trim(struct hami_driver_pool *pool) {
    pool->kind->trim(pool);
    return hami_driver_pool_reconcile(pool);
}

/* Bytes that the pool lacks for a request, plus bytes by which it has grown and that are not charged yet. */
static uint64_t pool_missing(struct hami_driver_pool *pool, const void *request) {
    uint64_t charged = pool->charge.pages << HAMI_PAGE_SHIFT, held = charged;
    (void)pool->kind->reserved(pool, &held);
    return hami_sum(pool->kind->lack(pool, request, held), hami_excess(held, charged));
}

bool hami_driver_pool_reserve(struct hami_driver_pool *pool, const void *request) {
    uint64_t wanted = pool_missing(pool, request);
    if (pool->charge.device < 0) {
        return hami_charge_take(pool->device, wanted, HAMI_COLUMN_DATA, &pool->charge);
    }
    bool reuses = pool->kind->reuses_above_limit;
    if (wanted == 0 ? reuses || hami_charge_within(&pool->charge) : hami_charge_try(&pool->charge, wanted)) {
        return true;
    }
    (void)hami_driver_pool_trim(pool);
    wanted = pool_missing(pool, request);
    return (wanted == 0 && reuses) || hami_charge_grow(&pool->charge, wanted);
}
