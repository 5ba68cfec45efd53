// Names as somebody would choose them who wants to harm whoever shows them: of the
// thread here, of the function in the file's symbol table, where the test puts it.
#include <sys/prctl.h>

#include "common.h"

static pthread_barrier_t barrier;

void meet(void) __asm__("replaced_by_another_of_the_same_length__");
__attribute__((noinline)) void meet(void)
{
    pthread_barrier_wait(&barrier); // SITE hostile
    __asm__ volatile("");
}

static void *work(void *unused)
{
    prctl(PR_SET_NAME, "=\033[2J<b>\",'&\n");
    for (volatile long round = 0; round < 50; round++)
        meet();
    return unused;
}

int main(void)
{
    pthread_t handle;
    must(pthread_barrier_init(&barrier, NULL, 2));
    must(pthread_create(&handle, NULL, work, NULL));
    work(NULL);
    must(pthread_join(handle, NULL));
    return 0;
}
