/* Two threads meet in a function of the program's own, and check that each round changes exactly what it
   should. Each of two such functions has an instruction that a jump can replace. That of `meet_kept`
   begins with a byte that can stay before a jump (a REX prefix), that of `meet_lost` does not.
     displaced kept|lost ROUNDS [PAUSE_US] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int meet_kept(pthread_barrier_t *barrier);
int meet_lost(pthread_barrier_t *barrier);

__asm__(".text\n"
        ".globl meet_kept\n"
        ".type meet_kept, @function\n"
        "meet_kept:\n"
        "nop\n"
        ".globl kept_site\n"
        ".type kept_site, @function\n"
        "kept_site:\n"
        "sub $0x108, %rsp\n"
        "call pthread_barrier_wait@PLT\n"
        "add $0x108, %rsp\n"
        "ret\n"
        ".size kept_site, . - kept_site\n"
        ".size meet_kept, . - meet_kept\n"
        ".globl meet_lost\n"
        ".type meet_lost, @function\n"
        "meet_lost:\n"
        "nop\n"
        ".globl lost_site\n"
        ".type lost_site, @function\n"
        "lost_site:\n"
        "mov $0x12345678, %eax\n"
        "sub $8, %rsp\n"
        "call pthread_barrier_wait@PLT\n"
        "add $8, %rsp\n"
        "ret\n"
        ".size lost_site, . - lost_site\n"
        ".size meet_lost, . - meet_lost\n");

static pthread_barrier_t barrier;
static int (*meet)(pthread_barrier_t *) = meet_kept;
static long rounds = 1000, wait_us = 200;
static volatile long counts[2];
static long wrong, serials;

static void *work(void *number) {
    long me = (long)number;
    for (long round = 0; round < rounds; round++) {
        counts[me] = round;
        if (meet(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
        if (counts[1 - me] != round)
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&barrier);
        if (wait_us)
            usleep(wait_us);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "lost"))
        meet = meet_lost;
    if (argc > 2)
        rounds = atol(argv[2]);
    if (argc > 3)
        wait_us = atol(argv[3]);
    pthread_barrier_init(&barrier, NULL, 2);
    printf("ready\n");
    fflush(stdout);
    pthread_t other;
    pthread_create(&other, NULL, work, (void *)1);
    work((void *)0);
    pthread_join(other, NULL);
    puts(!wrong && serials == rounds ? "right" : "wrong");
    return 0;
}
