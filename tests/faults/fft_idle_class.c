// Two threads transform blocks. The second put itself into SCHED_IDLE, as a background job would;
// the program's encoder, which never meets them, keeps a CPU busy.
// fault: the second thread has the class SCHED_IDLE.
// build: gcc -lm
// must: SCHED_IDLE
// never: static imbalance
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { SIZE = 512, ROUNDS = 80 };
static double re[2][SIZE], im[2][SIZE];
static pthread_barrier_t done;
static atomic_int is_over;

static void *encode(void *arg)
{
    volatile double x = 1;
    while (!atomic_load(&is_over))
        x = x * 1.0000001 + 1e-9;
    return arg;
}

static void *transform(void *arg)
{
    long me = (long)arg;
    if (me == 1) {
        struct sched_param none = {0};
        pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double out_re[SIZE], out_im[SIZE];
        for (int k = 0; k < SIZE; k++) {
            out_re[k] = out_im[k] = 0;
            for (int n = 0; n < SIZE; n++) {
                double turn = -6.283185307179586 * k * n / SIZE;
                out_re[k] += re[me][n] * cos(turn);
                out_im[k] += re[me][n] * sin(turn);
            }
        }
        for (int k = 0; k < SIZE; k++)
            im[me][k] = out_re[k] + out_im[k];
        pthread_barrier_wait(&done);
    }
    return NULL;
}

int main(void)
{
    pthread_t encoders[1], threads[2];
    for (int i = 0; i < SIZE; i++)
        re[0][i] = re[1][i] = i % 7;
    pthread_barrier_init(&done, NULL, 2);
    for (int i = 0; i < 1; i++) {
        pthread_create(&encoders[i], NULL, encode, NULL);
        pthread_setname_np(encoders[i], "encoder");
    }
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, transform, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&is_over, 1);
    pthread_join(encoders[0], NULL);
    printf("%g\n", im[1][5]);
    return 0;
}
