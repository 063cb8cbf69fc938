/*
 * Our dlsym and dlvsym. Each first calls hami_dlsym_answer or hami_dlvsym_answer, with the return address of the
 * program's call as fourth argument. If the answer is NULL, it jumps to the C library's function, and leaves arguments,
 * stack and return address as they were: for RTLD_NEXT the C library takes the return address as the caller.
 */

#if defined(__x86_64__)

.macro DOOR entry, answer, real
    .text
    .globl \entry
    .hidden \entry
    .type \entry, @function
    .p2align 4
\entry:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rcx
    call \answer
    testq %rax, %rax
    jne 1f
    call \real
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    je 2f
    jmp *%rax
1:
    .cfi_adjust_cfa_offset 24
    addq $24, %rsp
    .cfi_adjust_cfa_offset -24
2:
    ret
    .cfi_endproc
    .size \entry, . - \entry
.endm

#elif defined(__aarch64__)

.macro DOOR entry, answer, real
    .text
    .globl \entry
    .hidden \entry
    .type \entry, %function
    .p2align 4
\entry:
    .cfi_startproc
    hint #34 /* bti c */
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    mov x3, x30
    bl \answer
    cbnz x0, 1f
    bl \real
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    cbz x16, 2f
    br x16
1:
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    ret
2:
    mov x0, xzr
    ret
    .cfi_endproc
    .size \entry, . - \entry
.endm

#else
#error "libvgpu.so knows x86-64 and aarch64"
#endif

DOOR hami_dlsym, hami_dlsym_answer, hami_libc_dlsym
DOOR hami_dlvsym, hami_dlvsym_answer, hami_libc_dlvsym

/* The symbol version of dlsym that programs linked before glibc 2.34 ask for. Later ones ask for GLIBC_2.34. */
#if defined(__x86_64__)
#define OLDEST GLIBC_2.2.5
#else
#define OLDEST GLIBC_2.17
#endif

.macro EXPORT name, version, suffix
    .globl hami_export_\name\suffix
    .set hami_export_\name\suffix, hami_\name
    .type hami_export_\name\suffix, %function
    .symver hami_export_\name\suffix, \name\version
.endm

EXPORT dlsym, @@GLIBC_2.34, _2_34
EXPORT dlvsym, @@GLIBC_2.34, _2_34
EXPORT dlsym, @OLDEST, _old
EXPORT dlvsym, @OLDEST, _old

.section .note.GNU-stack, "", %progbits
