// What the test programs share: clocks, loads, options of the form name=value,
// and a note of what the barrier function looks like in memory.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

// Uses the CPU for so long, by the thread's own account.
static inline void spin_us(long us)
{
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + (uint64_t)us * 1000;
    while (us > 0 && clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

static inline void sleep_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    while (us > 0 && nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

static inline int tid(void)
{
    return (int)syscall(SYS_gettid);
}

// The value of `name=value` among the arguments.
static inline const char *text_option(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
            return argv[i] + n + 1;
    return NULL;
}

static inline long option(int argc, char **argv, const char *name, long otherwise)
{
    const char *text = text_option(argc, argv, name);
    return text ? atol(text) : otherwise;
}

// The first bytes of the barrier function as they are in memory now: a probe
// that has been left behind would show.
static inline void print_code(void)
{
    const unsigned char *code = (const unsigned char *)(uintptr_t)&pthread_barrier_wait;
    printf("code ");
    for (int i = 0; i < 64; i++)
        printf("%02x", code[i]);
    printf("\n");
    fflush(stdout);
}

static inline void must(int error)
{
    if (error != 0) {
        fprintf(stderr, "error %d\n", error);
        abort();
    }
}

// The same in this thread and in another one.
static inline void in_two(void *(*work)(void *))
{
    pthread_t other;
    must(pthread_create(&other, NULL, work, NULL));
    work(NULL);
    must(pthread_join(other, NULL));
}
