// Loads a library and uses it, forbids to look into itself, and puts data of its own where the library
// lay. Says how many bytes of that are other ones after more libraries have come.
//
// unloaded library=LIBRARY (plugin.c) [dumpable=0]
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "common.h"

#define PAGE 4096ul
#define FILL 0x55 // an instruction too: push

int main(int argc, char **argv)
{
    void *library = dlopen(text_option(argc, argv, "library"), RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 9;
    }
    uintptr_t entry = (uintptr_t)dlsym(library, "plugin_run");
    sleep_us(500000);
    for (int i = 0; i < 5; i++)
        ((void (*)(long, long))entry)(2, 10);
    prctl(PR_SET_DUMPABLE, option(argc, argv, "dumpable", 0), 0, 0, 0);
    dlclose(library);
    void *page = (void *)(entry & ~(PAGE - 1));
    unsigned char *data = mmap(page, PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (data != page)
        return 8;
    memset(data, FILL, PAGE);
    void *more[] = {dlopen("libm.so.6", RTLD_NOW), dlopen("libresolv.so.2", RTLD_NOW)};
    sleep_us(300000);
    long changed = 0;
    for (unsigned long i = 0; i < PAGE; i++)
        changed += data[i] != FILL;
    printf("loaded %d changed %ld\n", more[0] && more[1], changed);
    return 4;
}
