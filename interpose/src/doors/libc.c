/*
 * Reads the symbol tables of loaded libraries without the loader. We need that for the C library's own dlsym and
 * dlvsym, for which the loader would find ours, and to tell whether a library is a driver. Up to glibc 2.33 dlsym is in
 * libdl.so.2, since then in libc.so.6; where both have one, libc's counts. Built without instrumentation, as dlsym.c.
 */
#include "doors/hook.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>

/* Not strcmp: that may be a sanitizer's, whose runtime is not up yet. */
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

/* The loader relocates the pointers in most dynamic sections. Where it does not, a small value is an offset. */
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
    bool variable = ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT; /* such as a program's table of functions */
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && !variable &&
           libc_same(s->names + symbol->st_name, name);
}

/* Index of `name` in the GNU hash table, or 0. */
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

/* Index of `name` in the older hash table, whose second word is the number of symbols; or 0. */
static uint32_t libc_find_linear(const struct symbols *s, const char *name) {
    for (uint32_t i = 1; i < s->hash[1]; i++) {
        if (libc_defines(s, i, name)) {
            return i;
        }
    }
    return 0;
}

static const char *libc_file_of(const char *path) {
    const char *file = path;
    for (const char *at = path; *at != '\0'; at++) {
        file = *at == '/' ? at + 1 : file;
    }
    return file;
}

/* Whether the file name of `path` is `library` followed by a dot or dash. */
static bool libc_named(const char *path, const char *library) {
    const char *file = libc_file_of(path);
    while (*library != '\0' && *file == *library) {
        file++;
        library++;
    }
    return *library == '\0' && (*file == '.' || *file == '-');
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
 * The function of that name in the first library called `library`, up to libc.so.6 at most.
 *
 * Walks the loader's list without its lock. dl_iterate_phdr takes the lock, which stays taken in the child of a fork
 * that happens meanwhile, and a sanitizer may replace it. Libraries loaded at the start never leave the list.
 */
static void *libc_find_in(const char *library, const char *symbol) {
    void *found = NULL;
    bool last = false;
    for (const struct link_map *map = _r_debug.r_map; map != NULL && found == NULL && !last; map = map->l_next) {
        if (map->l_name != NULL && map->l_ld != NULL && libc_named(map->l_name, library)) {
            found = hami_function_in(map, symbol);
            last = libc_same(libc_file_of(map->l_name), "libc.so.6");
        }
    }
    return found;
}

static void *libc_find_once(const char *symbol, _Atomic(void *) *known) {
    void *address = atomic_load_explicit(known, memory_order_acquire);
    if (address == NULL) {
        address = libc_find_in("libc", symbol);
        address = address != NULL ? address : libc_find_in("libdl", symbol);
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
