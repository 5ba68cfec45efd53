# The code of libgomp 16.1 (Debian) for barriers, with the instructions that are the same in all of it
# left out. Threads wait in wait_end.
    .text
    .globl GOMP_barrier
    .type GOMP_barrier, @function
GOMP_barrier:
    .cfi_startproc
    endbr64
    mov %fs:0x10(%rax), %rdi
    sub $-0x80, %rdi
    jmp wait
    .cfi_endproc
    .size GOMP_barrier, . - GOMP_barrier
    .p2align 4
work_share_end:
    .cfi_startproc
    endbr64
    push %rbx
    .cfi_def_cfa_offset 16
    sub $0x20, %rsp
    .cfi_def_cfa_offset 48
    mov %fs:0x10(%rbx), %rdx
    test %rdx, %rdx
    mov 0x84(%rdx), %esi
    lea 0x80(%rdx), %r8
    and $0xfffffffc, %esi
    lock subl $1, 0xc0(%rdx)
    jne 1f
    or $1, %esi
1:  mov %r8, %rdi
    call wait_end
    add $0x20, %rsp
    .cfi_def_cfa_offset 16
    pop %rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .p2align 4
wait_end:
    .cfi_startproc
    endbr64
    sub $0x38, %rsp
    .cfi_def_cfa_offset 64
    mov %esi, %edx
    and $1, %esi
    mov %rbx, 0x18(%rsp)
    lea 4(%rdi), %rbx
2:  cmp (%rbx), %edx
    je 2b
    mov 0x18(%rsp), %rbx
    add $0x38, %rsp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .p2align 4
wait:
    .cfi_startproc
    endbr64
    mov 4(%rdi), %esi
    and $0xfffffffc, %esi
    lock subl $1, 0x40(%rdi)
    sete %dl
    mov %esi, %eax
    or $1, %eax
    test %dl, %dl
    cmovne %eax, %esi
    {disp32} jmp wait_end
    .cfi_endproc
    .p2align 4
wait_final:
    .cfi_startproc
    endbr64
    mov 4(%rdi), %esi
    and $0xfffffffc, %esi
    lock subl $1, 0x44(%rdi)
    jne 3f
    mov (%rdi), %eax
    or $1, %esi
    mov %eax, 0x44(%rdi)
3:  {disp32} jmp wait_end
    .cfi_endproc
