/*
 * Reads the symbol tables of loaded libraries, without the help of the loader. This finds the C library's own dlsym and
 * dlvsym, where the loader would find ours. It also tells whether a library is a driver. glibc has dlsym in libc.so.6
 * since 2.34, and in libdl.so.2 before. This file is built without a sanitizer's instrumentation, as dlsym.c is.
 */
#include "doors/hook.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>

/* We do not call strcmp: it may be a sanitizer's, whose runtime has not started yet. */
static bool libc_same(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
};

/* The loader turns the offsets in a dynamic section into pointers, but not if the section is read-only. */
static const void *libc_pointer(ElfW(Addr) base, ElfW(Addr) value) {
    return (const void *)(value < base ? value + base : value);
}

static struct symbols libc_symbols_of(ElfW(Addr) base, const ElfW(Dyn) * dynamic) {
    struct symbols s = {NULL, NULL, NULL, NULL};
    for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
        const void *at = libc_pointer(base, d->d_un.d_ptr);
        s.table = d->d_tag == DT_SYMTAB ? at : s.table;
        s.names = d->d_tag == DT_STRTAB ? at : s.names;
        s.gnu_hash = d->d_tag == DT_GNU_HASH ? at : s.gnu_hash;
        s.hash = d->d_tag == DT_HASH ? at : s.hash;
    }
    return s;
}

static bool libc_defines(const struct symbols *s, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = &s->table[index];
    bool variable = ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT; /* a program may call a variable "cuInit" */
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && !variable &&
           libc_same(s->names + symbol->st_name, name);
}

/* Index of the symbol `name` by the library's DT_GNU_HASH table, or 0. */
static uint32_t libc_find_gnu(const struct symbols *s, const char *name) {
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c != 0; c++) {
        hash = hash * 33 + *c;
    }
    uint32_t buckets = s->gnu_hash[0];
    uint32_t first = s->gnu_hash[1];
    uint32_t bloom_words = s->gnu_hash[2];
    const uint32_t *bucket = s->gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    if (buckets == 0 || bucket[hash % buckets] < first) {
        return 0;
    }
    for (uint32_t i = bucket[hash % buckets];; i++) {
        uint32_t entry = chain[i - first];
        if ((entry | 1) == (hash | 1) && libc_defines(s, i, name)) {
            return i;
        }
        if ((entry & 1) != 0) {
            return 0;
        }
    }
}

/* Index of the symbol `name` in a library that has only a DT_HASH table, or 0. hash[1] is the number of symbols. */
static uint32_t libc_find_linear(const struct symbols *s, const char *name) {
    for (uint32_t i = 1; i < s->hash[1]; i++) {
        if (libc_defines(s, i, name)) {
            return i;
        }
    }
    return 0;
}

/* Whether the last part of `path` is `name`. */
static bool libc_is_file(const char *path, const char *name) {
    const char *file = path;
    for (const char *at = path; *at != '\0'; at++) {
        file = *at == '/' ? at + 1 : file;
    }
    return libc_same(file, name);
}

void *hami_function_in(const struct link_map *library, const char *name) {
    struct symbols s = libc_symbols_of(library->l_addr, library->l_ld);
    if (s.table == NULL || s.names == NULL || (s.gnu_hash == NULL && s.hash == NULL)) {
        return NULL;
    }
    uint32_t index = s.gnu_hash != NULL ? libc_find_gnu(&s, name) : libc_find_linear(&s, name);
    return index == 0 ? NULL : (void *)(library->l_addr + s.table[index].st_value);
}

/*
 * Finds a function in the loaded library with the file name `library`. Returns NULL if there is none.
 *
 * Walks the loader's list without its lock, which is safe up to `library`: libraries that the program started with stay
 * in the list. dl_iterate_phdr(3) would take the lock, and a fork at that moment leaves it locked in the child.
 */
static void *libc_find_in(const char *library, const char *symbol) {
    const struct link_map *map = _r_debug.r_map;
    while (map != NULL && (map->l_name == NULL || !libc_is_file(map->l_name, library))) {
        map = map->l_next;
    }
    return map == NULL ? NULL : hami_function_in(map, symbol);
}

static void *libc_find_once(const char *symbol, _Atomic(void *) *known) {
    void *address = atomic_load_explicit(known, memory_order_acquire);
    if (address == NULL) {
        address = libc_find_in("libc.so.6", symbol);
        address = address != NULL ? address : libc_find_in("libdl.so.2", symbol);
        atomic_store_explicit(known, address, memory_order_release);
    }
    return address;
}

hami_dlsym_fn *hami_libc_dlsym(void) {
    static _Atomic(void *) known;
    return (hami_dlsym_fn *)libc_find_once("dlsym", &known);
}

hami_dlvsym_fn *hami_libc_dlvsym(void) {
    static _Atomic(void *) known;
    return (hami_dlvsym_fn *)libc_find_once("dlvsym", &known);
}
