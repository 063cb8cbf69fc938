/* Generated tables: what cuGetProcAddress finds, and the names of errors. */
#ifndef SIM_CUDA_ENTRIES_H
#define SIM_CUDA_ENTRIES_H

#include <stddef.h>

struct sim_entry {
    const char *base;
    void *address;
    int version;
    int per_thread;
};
struct sim_error {
    int value;
    const char *name, *text;
};

extern const struct sim_entry sim_entries[];
extern const size_t sim_entry_count;
extern const struct sim_error sim_errors[];
extern const size_t sim_error_count;

#endif
