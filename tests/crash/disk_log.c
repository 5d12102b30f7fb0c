/* Records what a process does to the files of one folder, in order, so that a power cut can be played back.
 *
 * Loaded by LD_PRELOAD. DISK_ROOT names the folder, DISK_LOG the file that takes the records. A record is a head,
 * a path and the bytes written; a call is recorded after it has been carried out, so that what a kill cuts off counts as
 * not done. A sync has a record before it, too: it covers what was recorded before that one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct head {
  uint32_t kind, path, other, thread;
  uint64_t inode, offset, bytes;
};

static char root[PATH_MAX];
static size_t root_length;
static int out = -1;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
  const char *folder = getenv("DISK_ROOT"), *log = getenv("DISK_LOG");
  if (!folder || !log || !realpath(folder, root)) return;
  root_length = strlen(root);
  out = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int within(const char *path) {
  return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static void record(char kind, uint64_t inode, const char *path, const char *other, uint64_t offset, const void *data,
                   size_t bytes) {
  struct head head = {(uint32_t)kind, (uint32_t)strlen(path), (uint32_t)strlen(other), (uint32_t)syscall(SYS_gettid),
                      inode, offset, bytes};
  struct iovec parts[4] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)other, head.other},
                           {(void *)data, bytes}};
  if (syscall(SYS_writev, out, parts, 4) != (long)(sizeof head + head.path + head.other + bytes)) abort();
}

/* Whether a descriptor is of a file or folder that is recorded; its path as it is now. */
static int of(int fd, char *path, struct stat *found) {
  char link[64];
  ssize_t length;
  if (out < 0 || fd < 0 || fstat(fd, found) || !(S_ISREG(found->st_mode) || S_ISDIR(found->st_mode))) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if ((length = readlink(link, path, PATH_MAX - 1)) < 0) return 0;
  path[length] = 0;
  return within(path);
}

static int absolute(int folder, const char *path, char *whole) {
  char parent[PATH_MAX], copy[PATH_MAX], link[64];
  ssize_t length;
  if (out < 0 || strlen(path) >= PATH_MAX) return 0;
  if (path[0] != '/' && folder != AT_FDCWD) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    if ((length = readlink(link, parent, PATH_MAX - 1)) < 0) return 0;
    parent[length] = 0;
    if (snprintf(copy, sizeof copy, "%s/%s", parent, path) >= (int)sizeof copy) return 0;
  } else {
    strcpy(copy, path);
  }
  char *slash = strrchr(copy, '/'), *name = slash ? slash + 1 : copy;
  const char *above = slash ? (slash == copy ? "/" : (*slash = 0, copy)) : ".";
  if (!realpath(above, parent) || snprintf(whole, PATH_MAX, "%s/%s", parent, name) >= PATH_MAX) return 0;
  return within(whole);
}

static void written(int fd, int64_t offset, const void *data, ssize_t bytes) {
  char path[PATH_MAX];
  struct stat found;
  if (bytes <= 0 || !of(fd, path, &found)) return;
  if (offset < 0) offset = lseek(fd, 0, SEEK_CUR) - bytes;
  record('w', found.st_ino, path, "", (uint64_t)offset, data, (size_t)bytes);
}

static void cut(int fd, int64_t length) {
  char path[PATH_MAX];
  struct stat found;
  if (of(fd, path, &found)) record('t', found.st_ino, path, "", (uint64_t)length, "", 0);
}

ssize_t write(int fd, const void *data, size_t bytes) {
  ssize_t done = REAL(write)(fd, data, bytes);
  if (out >= 0) written(fd, -1, data, done);
  return done;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
  ssize_t done = REAL(pwrite)(fd, data, bytes, offset);
  if (out >= 0) written(fd, offset, data, done);
  return done;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
  ssize_t done = REAL(pwrite64)(fd, data, bytes, offset);
  if (out >= 0) written(fd, offset, data, done);
  return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  ssize_t done = REAL(writev)(fd, parts, count), left = done;
  char path[PATH_MAX];
  struct stat found;
  if (done <= 0 || !of(fd, path, &found)) return done;
  int64_t offset = lseek(fd, 0, SEEK_CUR) - done;
  for (int i = 0; i < count && left > 0; i++) {
    ssize_t part = left < (ssize_t)parts[i].iov_len ? left : (ssize_t)parts[i].iov_len;
    written(fd, offset, parts[i].iov_base, part);
    offset += part, left -= part;
  }
  return done;
}

int ftruncate(int fd, off_t length) {
  int done = REAL(ftruncate)(fd, length);
  if (!done) cut(fd, length);
  return done;
}

int ftruncate64(int fd, off64_t length) {
  int done = REAL(ftruncate64)(fd, length);
  if (!done) cut(fd, length);
  return done;
}

#define ALLOCATE(name, type)                                           \
  int name(int fd, type offset, type bytes) {                          \
    int done = REAL(name)(fd, offset, bytes);                          \
    char path[PATH_MAX];                                               \
    struct stat found;                                                 \
    if (!done && of(fd, path, &found)) cut(fd, found.st_size);         \
    return done;                                                       \
  }
ALLOCATE(posix_fallocate, off_t)
ALLOCATE(posix_fallocate64, off64_t)

#define SYNC(name)                                                         \
  int name(int fd) {                                                       \
    char path[PATH_MAX];                                                   \
    struct stat found;                                                     \
    int ours = of(fd, path, &found);                                       \
    if (ours) record('b', found.st_ino, path, "", 0, "", 0);               \
    int done = REAL(name)(fd);                                             \
    if (ours && !done) record('s', found.st_ino, path, "", 0, "", 0);      \
    return done;                                                           \
  }
SYNC(fsync)
SYNC(fdatasync)

static void opened(int fd, int flags) {
  char path[PATH_MAX];
  struct stat found;
  if (!(flags & (O_CREAT | O_TRUNC)) || !of(fd, path, &found) || !S_ISREG(found.st_mode)) return;
  if (flags & O_CREAT) record('n', found.st_ino, path, "", 0, "", 0);
  if (flags & O_TRUNC) record('t', found.st_ino, path, "", 0, "", 0);
}

#define OPEN(name)                                           \
  int name(const char *path, int flags, ...) {               \
    va_list more;                                            \
    va_start(more, flags);                                   \
    mode_t mode = va_arg(more, mode_t);                      \
    va_end(more);                                            \
    int fd = REAL(name)(path, flags, mode);                  \
    if (out >= 0 && fd >= 0) opened(fd, flags);              \
    return fd;                                               \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                         \
  int name(int folder, const char *path, int flags, ...) {   \
    va_list more;                                            \
    va_start(more, flags);                                   \
    mode_t mode = va_arg(more, mode_t);                      \
    va_end(more);                                            \
    int fd = REAL(name)(folder, path, flags, mode);          \
    if (out >= 0 && fd >= 0) opened(fd, flags);              \
    return fd;                                               \
  }
OPENAT(openat)
OPENAT(openat64)

int rename(const char *from, const char *to) {
  char old[PATH_MAX], now[PATH_MAX];
  int ours = absolute(AT_FDCWD, from, old) && absolute(AT_FDCWD, to, now);
  int done = REAL(rename)(from, to);
  if (ours && !done) record('r', 0, old, now, 0, "", 0);
  return done;
}

int renameat(int above, const char *from, int below, const char *to) {
  char old[PATH_MAX], now[PATH_MAX];
  int ours = absolute(above, from, old) && absolute(below, to, now);
  int done = REAL(renameat)(above, from, below, to);
  if (ours && !done) record('r', 0, old, now, 0, "", 0);
  return done;
}

int unlink(const char *name) {
  char path[PATH_MAX];
  int ours = absolute(AT_FDCWD, name, path);
  int done = REAL(unlink)(name);
  if (ours && !done) record('u', 0, path, "", 0, "", 0);
  return done;
}

int unlinkat(int folder, const char *name, int flags) {
  char path[PATH_MAX];
  int ours = absolute(folder, name, path);
  int done = REAL(unlinkat)(folder, name, flags);
  if (ours && !done) record('u', 0, path, "", 0, "", 0);
  return done;
}

int link(const char *from, const char *to) {
  char now[PATH_MAX];
  struct stat found;
  int ours = absolute(AT_FDCWD, to, now);
  int done = REAL(link)(from, to);
  if (ours && !done && !stat(to, &found)) record('n', found.st_ino, now, "", 0, "", 0);
  return done;
}

int linkat(int above, const char *from, int below, const char *to, int flags) {
  char now[PATH_MAX];
  struct stat found;
  int ours = absolute(below, to, now);
  int done = REAL(linkat)(above, from, below, to, flags);
  if (ours && !done && !stat(now, &found)) record('n', found.st_ino, now, "", 0, "", 0);
  return done;
}
