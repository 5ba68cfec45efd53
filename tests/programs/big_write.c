// A thread writes more into a pipe than it holds, and nobody reads for a while. Says at
// the end how much the one call has written.
//
// big_write [ms=1000]
#include "common.h"

#define LENGTH (1 << 20)

static int ends[2];
static char bytes[LENGTH];
static volatile long written;

static void *writes(void *unused)
{
    written = write(ends[1], bytes, LENGTH);
    close(ends[1]);
    return unused;
}

int main(int argc, char **argv)
{
    long ms = option(argc, argv, "ms", 1000);
    must(pipe(ends));
    pthread_t writer;
    must(pthread_create(&writer, NULL, writes, NULL));
    pthread_setname_np(writer, "writer");
    printf("ready\n");
    fflush(stdout);
    sleep_us(ms * 1000);
    static char room[1 << 16];
    while (read(ends[0], room, sizeof room) > 0) {
    }
    must(pthread_join(writer, NULL));
    printf("%ld\n", written);
    return 0;
}
