/* Calls functions of the C library, and checks that a wrapper of each, wherever it was loaded, sees the call once. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static long (*calls)(const char *);

#define SEEN(name, call)                                                                                               \
	do {                                                                                                           \
		long before = calls(#name);                                                                            \
		(void)!(call);                                                                                         \
		if (calls(#name) != before + 1)                                                                        \
			printf("%s: seen %ld times\n", #name, calls(#name) - before);                                  \
	} while (0)

int main(void)
{
	static char b[4096];
	static struct stat st;
	static struct stat64 st64;
	static struct statx stx;
	int pair[2], fd, other;
	calls = (long (*)(const char *))dlsym(RTLD_DEFAULT, "company_calls");
	if (!calls || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	struct iovec v = {b, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	void *p = NULL;
	SEEN(open, fd = open("/etc/passwd", O_RDONLY));
	SEEN(open64, open64("/etc/passwd", O_RDONLY));
	SEEN(openat, openat(AT_FDCWD, "/etc/passwd", O_RDONLY));
	SEEN(openat64, openat64(AT_FDCWD, "/etc/passwd", O_RDONLY));
	SEEN(creat, creat("/dev/null", 0600));
	SEEN(read, read(fd, b, 10));
	SEEN(readv, readv(fd, &v, 1));
	SEEN(write, write(pair[0], b, 10));
	SEEN(writev, writev(pair[0], &v, 1));
	SEEN(send, send(pair[0], b, 1, 0));
	SEEN(sendto, sendto(pair[0], b, 1, 0, NULL, 0));
	SEEN(sendmsg, sendmsg(pair[0], &m, 0));
	SEEN(recv, recv(pair[1], b, 1, 0));
	SEEN(recvfrom, recvfrom(pair[1], b, 1, 0, NULL, NULL));
	SEEN(recvmsg, recvmsg(pair[1], &m, 0));
	SEEN(ioctl, ioctl(fd, 0, 0));
	SEEN(dup, other = dup(fd));
	SEEN(dup2, dup2(fd, other));
	SEEN(dup3, dup3(fd, other, 0));
	SEEN(fcntl, fcntl(fd, F_GETFD));
	SEEN(fcntl64, fcntl64(fd, F_GETFD));
	SEEN(close, close(other));
	SEEN(mmap, p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	SEEN(mmap64, mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	SEEN(madvise, madvise(p, 4096, MADV_DONTNEED));
	SEEN(mremap, mremap(p, 8192, 4096, 0));
	SEEN(stat, stat("/etc/passwd", &st));
	SEEN(stat64, stat64("/etc/passwd", &st64));
	SEEN(lstat, lstat("/etc/passwd", &st));
	SEEN(lstat64, lstat64("/etc/passwd", &st64));
	SEEN(fstat, fstat(fd, &st));
	SEEN(fstat64, fstat64(fd, &st64));
	SEEN(fstatat, fstatat(AT_FDCWD, "/etc/passwd", &st, 0));
	SEEN(statx, statx(AT_FDCWD, "/etc/passwd", 0, STATX_ALL, &stx));
	SEEN(access, access("/etc/passwd", R_OK));
	SEEN(faccessat, faccessat(AT_FDCWD, "/etc/passwd", R_OK, 0));
	SEEN(readlink, readlink("/proc/self/exe", b, sizeof b));
	SEEN(readlinkat, readlinkat(AT_FDCWD, "/proc/self/exe", b, sizeof b));
	SEEN(opendir, opendir("/etc"));
	SEEN(fopen, fopen("/etc/passwd", "r"));
	SEEN(realpath, realpath("/etc/passwd", NULL));
	SEEN(canonicalize_file_name, canonicalize_file_name("/etc/passwd"));
	SEEN(getcwd, getcwd(b, sizeof b));
	SEEN(chdir, chdir("/"));
	SEEN(socket, socket(AF_UNIX, SOCK_STREAM, 0));
	if (fork() == 0) {
		char *const argv[] = {"true", NULL};
		execvp(argv[0], argv);
		_exit(1);
	}
	int status;
	wait(&status);
	puts(status ? "no child" : "success");
	return 0;
}
