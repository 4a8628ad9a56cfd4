/* A wall clock that can be set: a library for LD_PRELOAD, for brokers of any kind.
 *
 * It adds an offset to what libc says the wall clock is. The offset is in a small file that the
 * process maps when it starts and that others may write at any time. Clocks that only measure how
 * much time has passed (CLOCK_MONOTONIC and the like) stay as they are, as when somebody sets the
 * clock of a machine. So do deadlines: a wait until a time of the wall clock ends when that clock
 * shows it.
 *
 * TIERLOG_CLOCK_CONTROL names the file. Without it, or if it cannot be mapped, time is the
 * system's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CONTROL_BYTES = 4096, A_WALL_CLOCK_S = 1000000000 };

static volatile const int64_t *offset_s;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("TIERLOG_CLOCK_CONTROL");
    if (path == NULL)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && status.st_size >= CONTROL_BYTES) {
        void *mapped = mmap(NULL, CONTROL_BYTES, PROT_READ, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED)
            offset_s = mapped;
    }
    close(fd);
}

static time_t offset(void)
{
    return offset_s == NULL ? 0 : (time_t)*offset_s;
}

/* The function of this name in the next library, looked up once. */
#define NEXT(type, name, ...)                                                                      \
    static type (*next)(__VA_ARGS__);                                                              \
    if (next == NULL)                                                                              \
        *(void **)&next = dlsym(RTLD_NEXT, name)

int clock_gettime(clockid_t clock, struct timespec *now)
{
    NEXT(int, "clock_gettime", clockid_t, struct timespec *);
    int result = next(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    NEXT(int, "gettimeofday", struct timeval *, void *);
    int result = next(now, zone);
    if (result == 0)
        now->tv_sec += offset();
    return result;
}

int timespec_get(struct timespec *now, int base)
{
    NEXT(int, "timespec_get", struct timespec *, int);
    int result = next(now, base);
    if (result == TIME_UTC)
        now->tv_sec += offset();
    return result;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now != NULL)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

/* A deadline in the system's time. One of the monotonic clock is recognised by being so early:
 * no machine has been up for thirty years. */
static struct timespec in_system_time(const struct timespec *deadline)
{
    struct timespec result = *deadline;
    if (result.tv_sec >= A_WALL_CLOCK_S)
        result.tv_sec -= offset();
    return result;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    NEXT(int, "sem_timedwait", sem_t *, const struct timespec *);
    struct timespec until = in_system_time(deadline);
    return next(semaphore, &until);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex,
                            const struct timespec *restrict deadline)
{
    NEXT(int, "pthread_mutex_timedlock", pthread_mutex_t *, const struct timespec *);
    struct timespec until = in_system_time(deadline);
    return next(mutex, &until);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline)
{
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (next == NULL) {
#ifdef __x86_64__
        /* Without its version, the name may stand for one with an older layout of conditions. */
        *(void **)&next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
#else
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
#endif
    }
    struct timespec until = in_system_time(deadline);
    return next(condition, mutex, &until);
}
