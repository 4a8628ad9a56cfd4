/* A disk that fails on command: a library for LD_PRELOAD, for brokers of any kind.
 *
 * It stands in front of the calls of libc that read, write and sync files. Which of them fail, how
 * and how often is in a small file that the process maps when it starts and that others may write
 * at any time (struct control; disk.py has the same layout). Only files below one directory are
 * concerned. While nothing is to fail, a call costs one comparison more.
 *
 * TIERLOG_DISK_CONTROL names the file. Without it, or if it cannot be mapped, nothing ever fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { READ = 1, WRITE = 2, SYNC = 4, CREATE = 8, TRUNCATE = 16 };
enum { BELOW_BYTES = 1024, LINK_BYTES = 4096, CONTROL_BYTES = 4096, MILLION = 1000000 };

struct control {
    uint32_t calls;      /* the kinds of calls concerned, of the enum above */
    int32_t error;       /* the errno they fail with; 0: they are only slow */
    uint32_t per_million; /* how many of a million fail */
    uint32_t delay_us;   /* how long each takes before anything else */
    int64_t left;        /* how many more may fail; negative: without a limit */
    int64_t hits;        /* how many have failed or were slow */
    char below[BELOW_BYTES]; /* the directory, without a slash at its end */
};

static volatile struct control *control;
static uint64_t chance = 0x9E3779B97F4A7C15u;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("TIERLOG_DISK_CONTROL");
    if (path == NULL)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && status.st_size >= CONTROL_BYTES) {
        void *mapped = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED)
            control = mapped;
    }
    close(fd);
    chance ^= (uint64_t)getpid() << 20;
}

/* The function of this name in the next library, looked up once. */
#define NEXT(type, name, ...)                                                                      \
    static type (*next)(__VA_ARGS__);                                                              \
    if (next == NULL)                                                                              \
        *(void **)&next = dlsym(RTLD_NEXT, name)

static int is_drawn(uint32_t per_million)
{
    if (per_million >= MILLION)
        return 1;
    uint64_t x = __atomic_load_n(&chance, __ATOMIC_RELAXED);
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    __atomic_store_n(&chance, x, __ATOMIC_RELAXED);
    return (x >> 20) % MILLION < per_million;
}

static int is_below(const char *path)
{
    size_t size = strnlen((const char *)control->below, BELOW_BYTES);
    return size > 0 && size < BELOW_BYTES && strncmp(path, (const char *)control->below, size) == 0 &&
           (path[size] == '/' || path[size] == '\0');
}

/* One of those that are left, if any. */
static int has_left(void)
{
    int64_t left = __atomic_load_n(&control->left, __ATOMIC_SEQ_CST);
    while (left > 0)
        if (__atomic_compare_exchange_n(&control->left, &left, left - 1, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return 1;
    return left < 0;
}

/* The errno that a call on this path fails with; 0 if it goes on. */
static int failure_at(const char *path)
{
    if (!is_below(path) || !is_drawn(control->per_million) || !has_left())
        return 0;
    __atomic_add_fetch(&control->hits, 1, __ATOMIC_SEQ_CST);
    if (control->delay_us > 0) {
        struct timespec delay = {control->delay_us / MILLION, control->delay_us % MILLION * 1000L};
        nanosleep(&delay, NULL);
    }
    return control->error;
}

static int failure_of(int fd, uint32_t call)
{
    if (control == NULL || (control->calls & call) == 0)
        return 0;
    char name[32], path[LINK_BYTES];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int before = errno;
    ssize_t size = readlink(name, path, sizeof path - 1);
    errno = before;
    if (size <= 0)
        return 0;
    path[size] = '\0';
    return failure_at(path);
}

/* Fail with -1 and errno, if this call is to fail. */
#define FAIL(fd, call)                                                                             \
    do {                                                                                           \
        int error = failure_of(fd, call);                                                          \
        if (error != 0) {                                                                          \
            errno = error;                                                                         \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

ssize_t read(int fd, void *buffer, size_t size)
{
    NEXT(ssize_t, "read", int, void *, size_t);
    FAIL(fd, READ);
    return next(fd, buffer, size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t at)
{
    NEXT(ssize_t, "pread", int, void *, size_t, off_t);
    FAIL(fd, READ);
    return next(fd, buffer, size, at);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    NEXT(ssize_t, "readv", int, const struct iovec *, int);
    FAIL(fd, READ);
    return next(fd, parts, count);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at)
{
    NEXT(ssize_t, "preadv", int, const struct iovec *, int, off_t);
    FAIL(fd, READ);
    return next(fd, parts, count, at);
}

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    NEXT(ssize_t, "preadv2", int, const struct iovec *, int, off_t, int);
    FAIL(fd, READ);
    return next(fd, parts, count, at, flags);
}

ssize_t sendfile(int out, int in, off_t *at, size_t size)
{
    NEXT(ssize_t, "sendfile", int, int, off_t *, size_t);
    FAIL(in, READ);
    FAIL(out, WRITE);
    return next(out, in, at, size);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
    NEXT(ssize_t, "write", int, const void *, size_t);
    FAIL(fd, WRITE);
    return next(fd, buffer, size);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t at)
{
    NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t);
    FAIL(fd, WRITE);
    return next(fd, buffer, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    FAIL(fd, WRITE);
    return next(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    NEXT(ssize_t, "pwritev", int, const struct iovec *, int, off_t);
    FAIL(fd, WRITE);
    return next(fd, parts, count, at);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    NEXT(ssize_t, "pwritev2", int, const struct iovec *, int, off_t, int);
    FAIL(fd, WRITE);
    return next(fd, parts, count, at, flags);
}

int ftruncate(int fd, off_t size)
{
    NEXT(int, "ftruncate", int, off_t);
    FAIL(fd, TRUNCATE);
    return next(fd, size);
}

/* Unlike the others it returns the error, and leaves errno as it is. */
int posix_fallocate(int fd, off_t at, off_t size)
{
    NEXT(int, "posix_fallocate", int, off_t, off_t);
    int error = failure_of(fd, WRITE);
    return error != 0 ? error : next(fd, at, size);
}

int fsync(int fd)
{
    NEXT(int, "fsync", int);
    FAIL(fd, SYNC);
    return next(fd);
}

int fdatasync(int fd)
{
    NEXT(int, "fdatasync", int);
    FAIL(fd, SYNC);
    return next(fd);
}

/* Which file a mapping is of is not looked up: all mappings of a broker that are synced are of its
 * logs, so `below` itself stands for the file. */
int msync(void *start, size_t size, int flags)
{
    NEXT(int, "msync", void *, size_t, int);
    if (control != NULL && (control->calls & SYNC) != 0) {
        int error = failure_at((const char *)control->below);
        if (error != 0) {
            errno = error;
            return -1;
        }
    }
    return next(start, size, flags);
}

/* A new file needs space, too. Only absolute paths are looked at: brokers use no others. */
static int failure_to_create(const char *path, int flags)
{
    if (control == NULL || (control->calls & CREATE) == 0 || (flags & O_CREAT) == 0)
        return 0;
    int before = errno;
    int is_new = access(path, F_OK) != 0;
    errno = before;
    return is_new ? failure_at(path) : 0;
}

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, mode_t);                                                               \
        va_end(more);                                                                              \
    }                                                                                              \
    int error = failure_to_create(path, flags);                                                    \
    if (error != 0) {                                                                              \
        errno = error;                                                                             \
        return -1;                                                                                 \
    }

int open(const char *path, int flags, ...)
{
    NEXT(int, "open", const char *, int, ...);
    MODE_OF(flags)
    return next(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    NEXT(int, "openat", int, const char *, int, ...);
    MODE_OF(flags)
    return next(folder, path, flags, mode);
}

/* On 64-bit Linux the calls for large files are the same under a second name. */
ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
ssize_t preadv64(int, const struct iovec *, int, off_t) __attribute__((alias("preadv")));
ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off_t) __attribute__((alias("pwritev")));
ssize_t preadv64v2(int, const struct iovec *, int, off_t, int) __attribute__((alias("preadv2")));
ssize_t pwritev64v2(int, const struct iovec *, int, off_t, int) __attribute__((alias("pwritev2")));
ssize_t sendfile64(int, int, off_t *, size_t) __attribute__((alias("sendfile")));
int ftruncate64(int, off_t) __attribute__((alias("ftruncate")));
int posix_fallocate64(int, off_t, off_t) __attribute__((alias("posix_fallocate")));
int open64(const char *, int, ...) __attribute__((alias("open")));
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));
