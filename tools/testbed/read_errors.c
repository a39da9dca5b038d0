/* Loaded into a brick before the C library: a share of its reads of files, ERROR_RATE (0 to 1), fails with EIO. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t (*pread_function)(int, void *, size_t, off64_t);

static int fails(void)
{
    static __thread struct drand48_data state;
    static __thread int seeded;
    double drawn;

    if (!seeded) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        srand48_r(now.tv_nsec ^ (intptr_t)&state, &state);
        seeded = 1;
    }
    drand48_r(&state, &drawn);
    return drawn < ERROR_RATE;
}

ssize_t pread64(int descriptor, void *buffer, size_t size, off64_t offset)
{
    static pread_function next;

    if (!next)
        next = (pread_function)dlsym(RTLD_NEXT, "pread64");
    if (fails()) {
        errno = EIO;
        return -1;
    }
    return next(descriptor, buffer, size, offset);
}
