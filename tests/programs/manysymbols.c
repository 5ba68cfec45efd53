/* A program whose symbols take long to read: two threads meet until somebody ends it. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* 200 000 functions that do nothing. */
__asm__(".pushsection .text\n"
        ".altmacro\n"
        ".macro function number\n"
        ".globl one_of_very_many_functions_\\number\n"
        ".type one_of_very_many_functions_\\number, @function\n"
        "one_of_very_many_functions_\\number: nop\n"
        ".endm\n"
        ".set number_, 0\n"
        ".rept 200000\n"
        "function %number_\n"
        ".set number_, number_ + 1\n"
        ".endr\n"
        ".popsection\n");

static pthread_barrier_t barrier;

static void *meet(void *unused) {
    for (;;) {
        pthread_barrier_wait(&barrier); // SITE meet
        usleep(1000);
    }
    return unused;
}

int main(void) {
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, meet, NULL);
    puts("ready");
    fflush(stdout);
    meet(NULL);
}
