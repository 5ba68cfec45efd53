// An OpenMP program of two threads on two CPUs, with a progress thread that spins on a flag.
// fault: `progress` uses a CPU all the time and comes to no barrier.
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// must: progress
// must: no barrier
// never: static imbalance
// never: other processes take
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { WIDTH = 512, HEIGHT = 512, ROUNDS = 60 };
static float image[HEIGHT][WIDTH], blurred[HEIGHT][WIDTH];
static atomic_int round_now, is_over;

static void *show_progress(void *arg)
{
    int shown = 0;
    while (!atomic_load(&is_over))
        if (atomic_load(&round_now) != shown)
            shown = atomic_load(&round_now);
    return arg;
}

int main(void)
{
    pthread_t progress;
    pthread_create(&progress, NULL, show_progress, NULL);
    pthread_setname_np(progress, "progress");
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            image[y][x] = (float)(x * y % 255);
    for (int r = 0; r < ROUNDS; r++) {
#pragma omp parallel for schedule(static)
        for (int y = 2; y < HEIGHT - 2; y++)
            for (int x = 2; x < WIDTH - 2; x++) {
                float sum = 0;
                for (int dy = -2; dy <= 2; dy++)
                    for (int dx = -2; dx <= 2; dx++)
                        sum += image[y + dy][x + dx];
                blurred[y][x] = sum / 25;
            }
#pragma omp parallel for schedule(static)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                image[y][x] = blurred[y][x] + 0.5f;
        atomic_store(&round_now, r);
    }
    atomic_store(&is_over, 1);
    pthread_join(progress, NULL);
    printf("%g\n", image[200][200]);
    return 0;
}
