/*
 * A driver that forwards, as WSL's libcuda.so.1 does: it exports every name of the driver's, and each jumps to the
 * function of that name in another library, whose path is this one's and ".1". With -DNVML it is one of NVML. It looks
 * a function up when that is called; with -DEAGER all of them when it is loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef NVML
#define SYMBOLS "nvml_symbols.def"
#else
#define SYMBOLS "cuda_symbols.def"
#endif

#define SYMBOL(name, ...) #name,
static const char *const names[] = {
#include SYMBOLS
};
#undef SYMBOL
enum { NAMES = sizeof names / sizeof *names };

__attribute__((visibility("hidden"))) void *forward_table[NAMES];
__attribute__((visibility("hidden"), used)) void *forward_find(unsigned long at);

void *forward_find(unsigned long at) {
    static void *library;
    char path[4096];
    Dl_info self;
    if (library == NULL && dladdr((void *)forward_find, &self) != 0) {
        snprintf(path, sizeof path, "%s.1", self.dli_fname);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL)
        abort();
    return forward_table[at] = dlsym(library, names[at]);
}

#ifdef EAGER
__attribute__((constructor)) static void find_all(void) {
    for (unsigned long at = 0; at < NAMES; at++)
        (void)forward_find(at);
}
#endif

/* \@ counts the macro's uses: it is the place of the name in the table. */
#ifdef __x86_64__
__asm__(".macro FORWARD name\n"
        ".globl \\name\n.type \\name, @function\n\\name: endbr64\n"
        "movq forward_table + 8 * \\@(%rip), %r11\ntestq %r11, %r11\njnz 1f\n"
        "pushq %rdi\npushq %rsi\npushq %rdx\npushq %rcx\npushq %r8\npushq %r9\npushq %rax\n"
        "movl $\\@, %edi\ncall forward_find\nmovq %rax, %r11\n"
        "popq %rax\npopq %r9\npopq %r8\npopq %rcx\npopq %rdx\npopq %rsi\npopq %rdi\n"
        "1: jmp *%r11\n.size \\name, . - \\name\n.endm\n");
#else
__asm__(".macro FORWARD name\n"
        ".globl \\name\n.type \\name, %function\n\\name:\n"
        "adrp x16, forward_table\nadd x16, x16, :lo12:forward_table\nldr x16, [x16, #8 * \\@]\ncbnz x16, 1f\n"
        "stp x0, x1, [sp, #-80]!\nstp x2, x3, [sp, #16]\nstp x4, x5, [sp, #32]\nstp x6, x7, [sp, #48]\n"
        "str x30, [sp, #64]\nmov x0, #\\@\nbl forward_find\nmov x16, x0\nldr x30, [sp, #64]\n"
        "ldp x6, x7, [sp, #48]\nldp x4, x5, [sp, #32]\nldp x2, x3, [sp, #16]\nldp x0, x1, [sp], #80\n"
        "1: br x16\n.size \\name, . - \\name\n.endm\n");
#endif

#define SYMBOL(name, ...) __asm__("FORWARD " #name "\n");
#include SYMBOLS
