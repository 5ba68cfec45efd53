// Two libraries with barriers of their own, loaded and unloaded in turn, so that one lies
// where the other lay.
//
// reload a=LIBRARY b=LIBRARY [times=20] [hold=US]  waits before and after each use
#include <dlfcn.h>

#include "common.h"

int main(int argc, char **argv)
{
    const char *libraries[2] = {text_option(argc, argv, "a"), text_option(argc, argv, "b")};
    long times = option(argc, argv, "times", 20);
    long hold = option(argc, argv, "hold", 0);
    long moved = 0;
    uintptr_t before = 0;
    for (long i = 0; i < times; i++) {
        void *library = dlopen(libraries[i % 2], RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 9;
        }
        uintptr_t entry = (uintptr_t)dlsym(library, "reloaded");
        moved += before && entry != before;
        before = entry;
        sleep_us(hold);
        ((void (*)(void))entry)();
        sleep_us(hold);
        dlclose(library);
    }
    printf("moved %ld\n", moved);
    return 0;
}
