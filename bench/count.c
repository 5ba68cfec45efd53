/* Counts the calls of a program to its barriers, from inside: how many there are
 * to be seen. To be preloaded; tells at the end on standard error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_long arrivals;

static void *next(const char *name)
{
    atomic_fetch_add_explicit(&arrivals, 1, memory_order_relaxed);
    return dlsym(RTLD_NEXT, name);
}

int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    return ((int (*)(pthread_barrier_t *))next("pthread_barrier_wait"))(barrier);
}

void GOMP_barrier(void)
{
    ((void (*)(void))next("GOMP_barrier"))();
}

__attribute__((destructor)) static void tell(void)
{
    fprintf(stderr, "arrivals %ld\n", atomic_load(&arrivals));
}
