// Functions with a barrier that are come to in unusual ways: by a jump, from a
// signal handler, from assembly of which nothing is told, from a library that
// comes and goes (library=PATH, times=N), before and after exec (again=1).
#include <dlfcn.h>
#include "common.h"

#define NOINLINE __attribute__((noinline))
#define THREADS 3
static long rounds;
static pthread_barrier_t barrier;
static _Thread_local volatile long passed;
static void (*library_wait)(pthread_barrier_t *);

NOINLINE static void wrapped(void)
{
    pthread_barrier_wait(&barrier); // SITE wrapped
    passed++;
}

NOINLINE static void jumps(void)
{
    passed++;
    wrapped();
}

NOINLINE static void signalled(void)
{
    pthread_barrier_wait(&barrier); // SITE signalled
    passed++;
}

NOINLINE static void on_signal(int number)
{
    signalled(); // CALL in handler
    passed += number;
}

// In data, as if it were a method: so its callers are looked for.
static void (*volatile handlers[])(int) = {on_signal, on_signal};

__attribute__((used)) NOINLINE static void from_assembly(void)
{
    pthread_barrier_wait(&barrier); // SITE assembly
    passed++;
}

void assembled(void);
__asm__(".text\n"
        ".type assembled, @function\n"
        "assembled:\n"
        "    sub $24, %rsp\n"
        "    call from_assembly\n"
        "    add $24, %rsp\n"
        "    ret\n"
        ".size assembled, . - assembled\n");

static void *work(void *unused)
{
    for (long round = 0; round < rounds; round++) {
        jumps(); // CALL jumps
        passed++;
        wrapped(); // CALL wrapped
        passed++;
        signalled(); // CALL outside
        pthread_kill(pthread_self(), SIGUSR1);
        assembled();
        passed++;
        assembled();
        passed++;
    }
    return unused;
}

static void *work_in_library(void *unused)
{
    for (long round = 0; round < rounds; round++) {
        library_wait(&barrier); // CALL library first
        passed++;
        library_wait(&barrier); // CALL library second
        passed++;
    }
    return unused;
}

static void team(void *(*function)(void *))
{
    pthread_t handles[THREADS];
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, function, NULL));
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 20);
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    signal(SIGUSR1, handlers[argc & 1]);
    const char *library = text_option(argc, argv, "library");
    long times = option(argc, argv, "times", 20);
    for (long i = 0; library != NULL && i < times; i++) {
        void *loaded = dlopen(library, RTLD_NOW);
        if (loaded == NULL)
            abort();
        *(void **)&library_wait = dlsym(loaded, "library_wait");
        team(work_in_library);
        dlclose(loaded);
        sleep_us(30000);
    }
    if (library == NULL)
        team(work);
    if (option(argc, argv, "again", 0)) {
        char text[32];
        snprintf(text, sizeof text, "rounds=%ld", rounds);
        execl(argv[0], argv[0], text, (char *)NULL);
        abort();
    }
    return 0;
}
