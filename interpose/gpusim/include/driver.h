/*
 * State of the simulated libcuda in one process. Objects handed out as handles come from type-stable memory (object.c):
 * a stale handle is recognised by its tag, never dereferenced into unmapped memory.
 */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "books.h"
#include "cuda_abi.h"
#include "engine.h"

#define SIM_GRANULE_BITS 21u
#define SIM_GRANULE (1ull << SIM_GRANULE_BITS) /* 2 MiB */
#define SIM_SMALL_LIMIT (1ull << 20)           /* below: packed into blocks */

enum sim_tag {
    SIM_TAG_FREE = 0,
    SIM_TAG_CONTEXT = 0x43545831,
    SIM_TAG_STREAM = 0x53545231,
    SIM_TAG_EVENT = 0x45564e31,
    SIM_TAG_MODULE = 0x4d4f4431,
    SIM_TAG_FUNCTION = 0x46554e31,
    SIM_TAG_POOL = 0x504f4f31,
    SIM_TAG_ARRAY = 0x41525231,
    SIM_TAG_GRAPH = 0x47524131,
    SIM_TAG_NODE = 0x4e4f4431,
    SIM_TAG_PHYSICAL = 0x50485931,
    SIM_TAG_LINK = 0x4c4e4b31,
    SIM_TAG_GREEN = 0x47524e31,
    SIM_TAG_EXTERNAL = 0x45585431,
};

/* First member of every handle object. */
struct sim_object {
    _Atomic uint32_t tag;
    uint32_t size_class;
    struct sim_object *next_free;
};
void *sim_object_new(enum sim_tag tag, size_t size); /* zeroed but for the header; NULL without memory */
void sim_object_delete(void *object);
static inline bool sim_is(const void *object, enum sim_tag tag) {
    return object != NULL &&
           atomic_load_explicit(&((const struct sim_object *)object)->tag, memory_order_relaxed) == tag;
}

struct sim_pool;
struct sim_block;

#define SIM_HEAP_SHARDS 8
#define SIM_HEAP_CLASSES 12 /* 512 B .. 1 MiB */

/* Where small allocations of one context, or of one pool, are packed. */
struct sim_heap {
    unsigned device;
    struct sim_context *context;
    struct sim_pool *pool; /* charges go through the pool's reserve if set */
    struct {
        pthread_mutex_t lock;
        struct sim_block *partial[SIM_HEAP_CLASSES]; /* blocks with room */
        struct sim_block *spare;                     /* one empty block kept as address space, not charged */
    } shards[SIM_HEAP_SHARDS];
};

struct sim_context {
    struct sim_object object;
    unsigned device;  /* index in the books */
    CUdevice ordinal; /* as CUDA numbers it in this process */
    unsigned flags, api_version;
    bool primary;
    struct sim_context *view_of; /* of a green context's: the primary one */
    _Atomic int retained;        /* of others than primary: beyond the first */
    unsigned long long id;
    size_t limits[16];
    int cache_config, shared_config;
    uint32_t peers; /* bit per ordinal */
    struct sim_heap heap;
    struct sim_stream *default_stream;
};

struct sim_stream {
    struct sim_object object;
    struct sim_context *context;
    unsigned flags;
    int priority;
    unsigned long long id;
    unsigned lane;             /* in this process's queue on the device */
    struct sim_graph *capture; /* being captured into, or NULL */
    uint64_t capture_id;
    int capture_mode;
    bool capture_joined; /* forked from another stream's capture by an event wait */
};

struct sim_event_object {
    struct sim_object object;
    struct sim_context *context;
    unsigned long long context_id;
    unsigned flags;
    unsigned cell;               /* in this process's queue on the device, + 1 */
    _Atomic uint64_t generation; /* of the last record; 0: never recorded */
    struct sim_graph *captured_in;
};

/* One device of this process. */
struct sim_gpu {
    unsigned index;   /* in the books */
    unsigned compute; /* compute instance, where that is a GPU instance */
    struct sim_context *primary;
    unsigned primary_flags;
    _Atomic int contexts; /* the context reserve is charged while > 0 */
    pthread_mutex_t lock; /* primary, contexts */
    struct sim_pool *default_pool, *current_pool, *graph_pool;
};

enum { SIM_DOWN = 0, SIM_UP = 1, SIM_FORKED = 2 };
struct sim_driver {
    _Atomic int state;
    unsigned count;
    struct sim_gpu gpus[SIM_MAX_CARDS];
};
extern struct sim_driver sim_driver;

/* 0 after a successful cuInit in this process, else the error every call answers with. */
static inline CUresult sim_ready(void) {
    return atomic_load_explicit(&sim_driver.state, memory_order_acquire) == SIM_UP ? CUDA_SUCCESS
                                                                                   : CUDA_ERROR_NOT_INITIALIZED;
}
static inline struct sim_gpu *sim_gpu_of(CUdevice ordinal) {
    return ordinal >= 0 && (unsigned)ordinal < sim_driver.count ? &sim_driver.gpus[ordinal] : NULL;
}
/* Of a device in the books; -1: it is not visible here. */
static inline CUdevice sim_ordinal_of(unsigned index) {
    CUdevice ordinal = 0;
    while ((unsigned)ordinal < sim_driver.count && sim_driver.gpus[ordinal].index != index) {
        ordinal++;
    }
    return (unsigned)ordinal < sim_driver.count ? ordinal : -1;
}
static inline struct sim_device *sim_model(const struct sim_gpu *gpu) {
    return &sim_books->devices[gpu->index];
}

/*
 * checkpoint.c: calls wait while the process is suspended. What sim_gate_enter returns is for sim_gate_leave; NULL in a
 * process that is in no books yet.
 */
struct sim_suspension *sim_gate_wait(struct sim_suspension *own);
static inline struct sim_suspension *sim_gate_enter(void) {
    int slot = sim_slot_mine();
    if (slot < 0) {
        return NULL;
    }
    struct sim_suspension *own = &sim_books->suspensions[slot];
    atomic_fetch_add(&own->inside, 1);
    return __builtin_expect(atomic_load(&own->state) == SIM_RUNNING, 1) ? own : sim_gate_wait(own);
}
static inline void sim_gate_leave(struct sim_suspension *own) {
    if (own != NULL) {
        atomic_fetch_sub(&own->inside, 1);
    }
}

/* Current context of the thread. sim_current sets *error and returns NULL when there is none. */
struct sim_context *sim_current(CUresult *error);
struct sim_context *sim_current_or_null(void);
struct sim_context *sim_view_new(struct sim_context *primary); /* a green context's; NULL: no memory */
int sim_device_of_call(void);                                  /* index in the books, -1 without a context */

/* limits.c: a context's limits when it starts, and what they hold of the device when it ends. */
void sim_limits_start(struct sim_context *context);
void sim_limits_end(struct sim_context *context);

/* Resolves 0, legacy and per-thread handles; NULL if the handle is not a live stream. */
struct sim_stream *sim_stream_of(CUstream handle, struct sim_context *context);

/* queue.c: what this process gives its devices to do. */
unsigned sim_lane_take(unsigned device); /* for a new stream; lane 0 is the default streams' */
void sim_lane_give_back(unsigned device, unsigned lane);
void sim_submit(struct sim_stream *stream, enum sim_op_kind kind, uint64_t duration, unsigned weight);
bool sim_stream_idle(const struct sim_stream *stream);
void sim_stream_wait(const struct sim_stream *stream);
uint64_t sim_stream_filled(const struct sim_stream *stream);
bool sim_lanes_reached(unsigned device, const uint64_t *filled); /* per lane, what sim_stream_filled said */
void sim_context_wait(const struct sim_context *context);
bool sim_event_take(struct sim_event_object *event);
void sim_event_give_back(struct sim_event_object *event);
void sim_event_record(struct sim_event_object *event, const struct sim_stream *stream);
bool sim_event_reached(const struct sim_event_object *event, uint64_t *time); /* time may be NULL */
void sim_event_wait(const struct sim_event_object *event);
void sim_event_join(const struct sim_event_object *event, const struct sim_stream *stream);

/* A duration as a kernel of this shape really takes it: ±20 %, or log-normal with this mean. */
uint64_t sim_jittered(uint64_t duration, unsigned sigma_percent);

/* arena.c: address space. */
enum sim_kind { SIM_KIND_DEVICE = 1, SIM_KIND_BLOCK, SIM_KIND_MANAGED, SIM_KIND_HOST, SIM_KIND_RESERVED };
struct sim_span {
    _Atomic uint32_t live;
    enum sim_kind kind;
    uint64_t base, size, granules;
    uint64_t charged; /* on `device`, now */
    unsigned device;
    unsigned flags;
    bool graph;         /* belongs to a graph's allocation node */
    unsigned imported;  /* another process's memory, which cuMemFree may not free: how often it was opened */
    unsigned shared;    /* entry in the books + 1, once it was shared with other processes */
    int preferred;      /* of managed memory: device + 2, so 0 is nowhere and 1 the host */
    uint32_t accessors; /* of managed memory: bit per device, the host the highest */
    unsigned long long id;
    struct sim_context *context;
    struct sim_pool *pool;
    struct sim_block *block;
    struct sim_mapping *mappings; /* reserved ranges: what is mapped where */
    struct sim_span *next_free;
};
bool sim_arena_ready(void); /* reserves the address space at first use */
struct sim_span *sim_span_new(enum sim_kind kind, uint64_t size, uint64_t alignment);
void sim_span_delete(struct sim_span *span);
struct sim_span *sim_span_at(uint64_t address); /* span that holds the address, or NULL */
void sim_span_each(bool (*visit)(struct sim_span *span, void *closure), void *closure);
/* Bytes behind a device address; NULL if it is not the simulated driver's. */
void *sim_bytes_at(uint64_t address);
bool sim_touch(uint64_t address, uint64_t length); /* false when the shadow is full: drop the write */

/* memory.c, small.c: allocations. */
struct sim_allocation {
    uint64_t base, size;
    unsigned device;
    unsigned long long id;
    enum sim_kind kind;
    unsigned flags;
    struct sim_context *context;
    struct sim_pool *pool;
};
bool sim_find(uint64_t address, struct sim_allocation *found);
void sim_heap_init(struct sim_heap *heap, struct sim_context *context, unsigned device, struct sim_pool *pool);
bool sim_heap_charge(struct sim_heap *heap, uint64_t bytes);
void sim_heap_discharge(struct sim_heap *heap, uint64_t bytes);
CUresult sim_allocate(struct sim_heap *heap, uint64_t size, CUdeviceptr *address);
CUresult sim_release(CUdeviceptr address);
uint64_t sim_small_allocate(struct sim_heap *heap, uint64_t size); /* 0: full */
bool sim_small_release(struct sim_span *span, uint64_t address);
bool sim_small_find(struct sim_span *span, uint64_t address, uint64_t *base, uint64_t *size, unsigned long long *id);
void sim_release_context_memory(struct sim_context *context);
void sim_block_forget(struct sim_block *block);
bool sim_registered(uint64_t address, uint64_t *base, uint64_t *size);

/* pool.c */
struct sim_work;
bool sim_pool_take(struct sim_pool *pool, uint64_t bytes);
void sim_pool_return(struct sim_pool *pool, uint64_t bytes);
void sim_pools_synchronised(void); /* somebody has waited: pools keep no more than their release thresholds */
void sim_pools_end_free(void);     /* those that were destroyed and have become free are over */
struct sim_heap *sim_pool_heap(struct sim_pool *pool);
struct sim_pool *sim_graph_pool(CUdevice ordinal); /* what memory nodes of graphs take from; keeps until trimmed */
CUresult sim_graph_allocate(CUdevice ordinal, uint64_t bytes, struct sim_context *context, struct sim_work *work);

/* One piece of work, as a stream does it or a graph keeps it. Types are CUgraphNodeType. */
enum {
    SIM_WORK_KERNEL = 0,
    SIM_WORK_COPY = 1,
    SIM_WORK_SET = 2,
    SIM_WORK_HOST = 3,
    SIM_WORK_GRAPH = 4,
    SIM_WORK_EMPTY = 5,
    SIM_WORK_WAIT = 6,
    SIM_WORK_RECORD = 7,
    SIM_WORK_ALLOC = 10,
    SIM_WORK_FREE = 11
};
struct sim_work {
    int type;
    uint64_t duration;             /* without jitter */
    unsigned weight, sigma;        /* kernels: thousandths of the device; spread in percent, 0 = ±20 % evenly */
    uint64_t target, source, size; /* copies; sets: size elements of width bytes at target */
    unsigned value, width;
    CUhostFn host;
    void *closure;
    struct sim_graph *child;
    CUDA_KERNEL_NODE_PARAMS kernel;
};

/* launch.c: does the work at once as far as bytes go, and queues its time; records it instead while capturing. */
CUresult sim_do(struct sim_stream *stream, const struct sim_work *work);
uint64_t sim_kernel_duration(const struct sim_function *function);
struct sim_work sim_kernel_work(const struct sim_function *function);

/* copy.c */
CUresult sim_move(uint64_t target, uint64_t source, uint64_t size);
CUresult sim_fill(uint64_t target, unsigned value, unsigned width, uint64_t count);

/* graph.c */
CUresult sim_capture(struct sim_stream *stream, const struct sim_work *work);
bool sim_capturing(struct sim_stream *stream);

/* vmm.c: what is mapped into a sparse array goes with it. */
void sim_tiles_forget(const struct sim_array *array);

/* vmm.c: whether [address, address + size) of a reserved range is mapped. */
bool sim_mapped(struct sim_span *span, uint64_t address, uint64_t size);

/* stream.c: the stream of a call, or NULL with *error set. */
struct sim_stream *sim_stream_or_error(CUstream handle, CUresult *error);

struct sim_external {
    struct sim_object object;
};

struct sim_function {
    struct sim_object object;
    struct sim_module *module;
    struct sim_function *next;
    uint64_t duration;      /* from the name; 0: the books say */
    unsigned weight, sigma; /* from the name; weight 0: the whole device */
    int attributes[20];
    char name[]; /* longer names are cut */
};
struct sim_module {
    struct sim_object object;
    struct sim_context *context;
    pthread_mutex_t lock;
    struct sim_function *functions;
    unsigned count;
    uint64_t bytes;   /* of the image, where known */
    CUdeviceptr code; /* where it lies on the device; 0: nowhere yet, or too small to count */
    unsigned long long code_id;
};
struct sim_array {
    struct sim_object object;
    CUDA_ARRAY3D_DESCRIPTOR shape;
    CUdeviceptr base;
    size_t pitch, row; /* bytes from row to row; bytes of a row */
    unsigned levels;   /* of a mipmapped array, else 0 */
    bool is_level;     /* of one: lies in its memory */
    struct sim_array *level[16];
};

static inline uint64_t sim_round_up(uint64_t value, uint64_t step) {
    return (value + step - 1) / step * step;
}

#endif
