// A program without barriers that loads a library with one after a while:
// dlopen plugin=FILE [hold=US] [threads=3] [rounds=50]
#include <dlfcn.h>
#include "common.h"

int main(int argc, char **argv)
{
    printf("ready\n");
    fflush(stdout);
    sleep_us(option(argc, argv, "hold", 0));
    void *library = dlopen(text_option(argc, argv, "plugin"), RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 9;
    }
    void (*run)(long, long) = (void (*)(long, long))dlsym(library, "plugin_run");
    if (!run)
        return 8;
    run(option(argc, argv, "threads", 3), option(argc, argv, "rounds", 50));
    printf("done\n");
    return 0;
}
