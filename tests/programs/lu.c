// LU decomposition of a matrix, a barrier after each column. The rows belong to threads in blocks,
// or in turns with -DCYCLIC; with -DSERIAL there are neither threads nor barriers.
//
// lu SIZE [THREADS]
#include "common.h"

static long size, threads = 1;
static double *matrix;
#ifndef SERIAL
static pthread_barrier_t barrier;
#endif

static int is_mine(long row, long me)
{
#ifdef CYCLIC
    return row % threads == me;
#else
    return row * threads / size == me;
#endif
}

static void *work(void *argument)
{
    long me = (long)argument;
    for (long k = 0; k < size - 1; k++) {
        for (long row = k + 1; row < size; row++) {
            if (!is_mine(row, me))
                continue;
            double factor = matrix[row * size + k] /= matrix[k * size + k];
            for (long column = k + 1; column < size; column++)
                matrix[row * size + column] -= factor * matrix[k * size + column];
        }
#ifndef SERIAL
        pthread_barrier_wait(&barrier); // SITE column
#endif
    }
    return NULL;
}

int main(int argc, char **argv)
{
    size = argc > 1 ? atol(argv[1]) : 64;
#ifndef SERIAL
    threads = argc > 2 ? atol(argv[2]) : 2;
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
#endif
    matrix = malloc(sizeof *matrix * (size_t)(size * size));
    for (long row = 0; row < size; row++)
        for (long column = 0; column < size; column++)
            matrix[row * size + column] = row == column ? (double)size : 1.0;
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(handles[i], NULL));
    printf("%.6f\n", matrix[size * size - 1]);
    return 0;
}
