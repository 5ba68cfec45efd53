// A process spins for a word of memory that its child will change: not a hang.
// build: gcc -O2 -g -pthread
// busy: yes
// outcome: unknown
// must: another process may change it
// never: no thread of the process is left
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    volatile int *word =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fork() == 0) {
        sleep(1000);
        *word = 1;
        _exit(0);
    }
    while (!*word)
        ;
}
