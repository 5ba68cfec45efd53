// Two threads that meet, and a third that writes at random into all memory that a tool has mapped
// and shares with the program.
//
// scribbles [seconds=3]
#include "common.h"

static pthread_barrier_t barrier;
static volatile int goes_on = 1;

static void *work(void *unused)
{
    for (long round = 0; round < 1000000000 && goes_on; round++) {
        pthread_barrier_wait(&barrier);
        sleep_us(100);
    }
    return unused;
}

static void scribble(void)
{
    static uint64_t seed = 88172645463325252u;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, until;
        if (strstr(line, "sbt-rings") == NULL || strstr(line, "rw-s") == NULL ||
            sscanf(line, "%lx-%lx", &from, &until) != 2)
            continue;
        uint64_t *words = (uint64_t *)from;
        for (int i = 0; i < 20000; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            uint64_t word = seed >> (seed >> 58);
            __atomic_store_n(&words[seed % ((until - from) / 8)], word, __ATOMIC_RELAXED);
        }
    }
    if (maps != NULL)
        fclose(maps);
}

int main(int argc, char **argv)
{
    pthread_t handle;
    long seconds = option(argc, argv, "seconds", 3);
    must(pthread_barrier_init(&barrier, NULL, 1));
    must(pthread_create(&handle, NULL, work, NULL));
    printf("ready\n");
    fflush(stdout);
    uint64_t end = now_ns() + (uint64_t)seconds * 1000000000u;
    while (now_ns() < end) {
        scribble();
        sleep_us(1000);
    }
    goes_on = 0;
    must(pthread_join(handle, NULL));
    return 0;
}
