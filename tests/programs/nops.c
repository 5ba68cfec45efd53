// Leaf functions with a nop of five bytes, which keep a value below their stack pointer where
// the nop stands. Their results tell whether anything was written there meanwhile.
//
// nops [rounds=2000] [threads=1]
#include "common.h"

#define NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#define DATA16_NOP ".byte 0x66, 0x0f, 0x1f, 0x40, 0x00"
#define ADDR32_NOP ".byte 0x67, 0x0f, 0x1f, 0x40, 0x00"
#define PREFIXED_NOP ".byte 0x67, 0x67, 0x67, 0x67, 0x90"
#define JUMP ".byte 0xe9, 0x00, 0x00, 0x00, 0x00"

static long rounds;
static pthread_barrier_t barrier;

// Returns its argument.
#define LEAF(name, nop)                                     \
    __attribute__((naked, noinline)) static long name(long) \
    {                                                       \
        __asm__("movq %rdi, -8(%rsp)\n\t"                   \
                "movq %rdi, -16(%rsp)\n\t" nop "\n\t"       \
                "movq -8(%rsp), %rax\n\t"                   \
                "addq -16(%rsp), %rax\n\t"                  \
                "shrq %rax\n\t"                             \
                "ret");                                     \
    }

LEAF(plain, NOP)
LEAF(data16, DATA16_NOP)
LEAF(addr32, ADDR32_NOP)
LEAF(prefixed, PREFIXED_NOP)
LEAF(jump, JUMP)

// The same with the nop at the beginning of a line.
__attribute__((naked, noinline)) static long lines(long)
{
    __asm__("movq %rdi, -8(%rsp)");
    __asm__(NOP "\n\tmovq -8(%rsp), %rax"); // LINE nop first
    __asm__("ret");
}

__attribute__((naked, noinline)) static long alone(long)
{
    __asm__("movq %rdi, -8(%rsp)");
    __asm__(NOP); // LINE nop alone
    __asm__("movq -8(%rsp), %rax");
    __asm__("ret");
}

// What compilers make of -fpatchable-function-entry=5.
__attribute__((naked, noinline)) static long patchable(long)
{
    __asm__(NOP "\n\tmovq %rdi, -8(%rsp)\n\tmovq -8(%rsp), %rax\n\tret");
}

__attribute__((naked, noinline)) static void only(void)
{
    __asm__(NOP "\n\tret");
}

// Such a function that is a barrier.
__attribute__((naked, noinline)) static int meet(pthread_barrier_t *)
{
    __asm__(NOP "\n\tsubq $8, %rsp\n\tcall pthread_barrier_wait@PLT\n\taddq $8, %rsp\n\tret");
}

static void *work(void *argument)
{
    long wrong = 0;
    for (long round = 0; round < rounds; round++) {
        long value = 3 * round + 7;
        wrong += plain(value) != value;
        wrong += data16(value) != value;
        wrong += addr32(value) != value;
        wrong += prefixed(value) != value;
        wrong += jump(value) != value;
        wrong += lines(value) != value;
        wrong += alone(value) != value;
        wrong += patchable(value) != value;
        only();
        if (round % 100 == 0)
            meet(&barrier);
    }
    return (char *)argument + wrong;
}

int main(int argc, char **argv)
{
    long threads = option(argc, argv, "threads", 1);
    rounds = option(argc, argv, "rounds", 2000);
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    long wrong = (long)work(NULL);
    for (long i = 1; i < threads; i++) {
        void *result;
        must(pthread_join(handles[i], &result));
        wrong += (long)result;
    }
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}
