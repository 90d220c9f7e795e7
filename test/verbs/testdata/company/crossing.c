/*
 * A library that wraps functions by others of the C library, as fakeroot does. Those may be functions of a library that
 * was loaded before this one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int __xstat(int v, const char *path, struct stat *st);
int __lxstat(int v, const char *path, struct stat *st);
int __fxstat(int v, int fd, struct stat *st);
int __fxstatat(int v, int dir, const char *path, struct stat *st, int flags);
int __xstat64(int v, const char *path, struct stat64 *st);
int __lxstat64(int v, const char *path, struct stat64 *st);
int __fxstat64(int v, int fd, struct stat64 *st);

int stat(const char *path, struct stat *st) { return __xstat(1, path, st); }
int lstat(const char *path, struct stat *st) { return __lxstat(1, path, st); }
int fstat(int fd, struct stat *st) { return __fxstat(1, fd, st); }
int fstatat(int dir, const char *path, struct stat *st, int flags) { return __fxstatat(1, dir, path, st, flags); }
int stat64(const char *path, struct stat64 *st) { return __xstat64(1, path, st); }
int lstat64(const char *path, struct stat64 *st) { return __lxstat64(1, path, st); }
int fstat64(int fd, struct stat64 *st) { return __fxstat64(1, fd, st); }

int access(const char *path, int mode) { return faccessat(AT_FDCWD, path, mode, 0); }
ssize_t readlink(const char *path, char *b, size_t size) { return readlinkat(AT_FDCWD, path, b, size); }
int dup(int fd) { return fcntl(fd, F_DUPFD, 0); }
int dup2(int fd, int to) { return fd == to ? fcntl(fd, F_GETFD) < 0 ? -1 : fd : dup3(fd, to, 0); }
ssize_t send(int fd, const void *b, size_t size, int flags) { return sendto(fd, b, size, flags, 0, 0); }
ssize_t recv(int fd, void *b, size_t size, int flags) { return recvfrom(fd, b, size, flags, 0, 0); }

ssize_t read(int fd, void *b, size_t size)
{
	struct iovec v = {b, size};
	return readv(fd, &v, 1);
}

ssize_t write(int fd, const void *b, size_t size)
{
	struct iovec v = {(void *)b, size};
	return writev(fd, &v, 1);
}

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off)
{
	return (void *)syscall(SYS_mmap, addr, size, prot, flags, fd, off);
}

int madvise(void *addr, size_t size, int advice) { return syscall(SYS_madvise, addr, size, advice); }

static mode_t mode_of(int flags, va_list ap) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0; }

int open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = mode_of(flags, ap);
	va_end(ap);
	return openat(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = mode_of(flags, ap);
	va_end(ap);
	return openat64(AT_FDCWD, path, flags, mode);
}
