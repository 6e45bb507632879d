/* clone3(2) on a stack of its own. libc has no such function: its syscall() would return twice on one stack. */
#include "clone.h"

#include <sched.h>

__attribute__((visibility("hidden"))) long spur_clone3_call(const struct spur_clone_args *args, size_t size, int (*run)(void *), void *argument);

/* Registers survive the call in the child, but for the result; the child ends in exit_group and never leaves this code. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl spur_clone3_call\n"
        ".hidden spur_clone3_call\n"
        ".type spur_clone3_call, @function\n"
        "spur_clone3_call:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    movq %rcx, %r8\n" /* the call destroys rcx and r11 */
        "    movl $435, %eax\n"
        "    syscall\n"
        "    testq %rax, %rax\n"
        "    jz 1f\n"
        "    ret\n"
        "1:\n"
        ".cfi_undefined rip\n" /* the outermost frame */
        "    xorl %ebp, %ebp\n"
        "    andq $-16, %rsp\n"
        "    movq %r8, %rdi\n"
        "    call *%rdx\n"
        "    movl %eax, %edi\n"
        "    movl $231, %eax\n"
        "    syscall\n"
        "    hlt\n"
        ".cfi_endproc\n"
        ".size spur_clone3_call, .-spur_clone3_call\n");
#else
__asm__(".text\n"
        ".globl spur_clone3_call\n"
        ".hidden spur_clone3_call\n"
        ".type spur_clone3_call, %function\n"
        "spur_clone3_call:\n"
        ".cfi_startproc\n"
        "    hint #34\n" /* bti c */
        "    mov x8, #435\n"
        "    svc #0\n"
        "    cbz x0, 1f\n"
        "    ret\n"
        "1:\n"
        ".cfi_undefined x30\n" /* the outermost frame */
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x0, x3\n"
        "    blr x2\n"
        "    mov x8, #94\n"
        "    svc #0\n"
        "    brk #1\n"
        ".cfi_endproc\n"
        ".size spur_clone3_call, .-spur_clone3_call\n");
#endif

static long clone_shared(const struct spur_clone *how)
{
    struct spur_clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | (how->share_descriptors ? (uint64_t)CLONE_FILES : 0U) | (how->ret_pidfd ? SPUR_CLONE_PIDFD : 0U) |
                 (how->cgroup_fd >= 0 ? SPUR_CLONE_INTO_CGROUP : 0U),
        .pidfd = (uint64_t)(uintptr_t)how->ret_pidfd,
        .exit_signal = (uint64_t)how->exit_signal,
        .stack = (uint64_t)(uintptr_t)how->stack,
        .stack_size = how->stack_bytes,
        .cgroup = how->cgroup_fd >= 0 ? (uint64_t)how->cgroup_fd : 0U,
    };
    return spur_clone3_call(&args, sizeof args, how->run, how->argument);
}

/* The older call, in copied memory: the child goes on below this frame in its own copy and ends here. The caller sleeps until its
 * exec or end here too: EOF on a pipe would come late where another thread forks meanwhile. It takes the place of the pidfd from
 * the argument that else is the parent's tid. */
static long clone_copied(const struct spur_clone *how)
{
    unsigned long flags = (unsigned long)how->exit_signal | (unsigned long)CLONE_VFORK | (how->share_descriptors ? (unsigned long)CLONE_FILES : 0UL) |
                          (how->ret_pidfd ? (unsigned long)SPUR_CLONE_PIDFD : 0UL);
    long pid = syscall(SYS_clone, flags, NULL, how->ret_pidfd, NULL, NULL);
    if (pid == 0) {
        syscall(SYS_exit_group, how->run(how->argument));
        __builtin_trap();
    }
    return pid < 0 ? -errno : pid;
}

long spur_clone(const struct spur_clone *how, uint32_t facilities)
{
    return facilities & SPUR_FACILITY_CLONE3 ? clone_shared(how) : clone_copied(how);
}
