/* Probes of system calls on the descriptors and paths of devices that libraries do not make. */
#include "probe.h"
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

static const char *device_path;

/* device returns a new descriptor of the device. */
static int device(void)
{
	device_path = text("/dev/infiniband/%s", context->device->dev_name);
	int fd = open(device_path, O_RDWR | O_CLOEXEC);
	MUST(fd >= 0);
	return fd;
}

/* A command that makes a context. */
static struct {
	uint32_t command;
	uint16_t in, out;
	uint64_t response;
} request;
static uint32_t response[8];

static void *command(void)
{
	request.in = sizeof request / 4, request.out = sizeof response / 4;
	request.response = (uintptr_t)response;
	memset(response, 0xee, sizeof response);
	return &request;
}

/* OUTCOME says the result of a call, and whether it has made a context. */
#define OUTCOME(key, call) (command(), outcome(key, call))

static void outcome(const char *key, long result)
{
	if (result < 0)
		error(key, -1);
	else
		say(key, "%ld", result);
	say(text("%s.context", key), "%d", response[0] != 0xeeeeeeee);
}

static void writes(void)
{
	enum { N = sizeof request };
	int fd = device();
	void *volatile nowhere = (void *)8;
	OUTCOME("write.short", write(fd, &request, 4));
	OUTCOME("write.none", write(fd, &request, 0));
	OUTCOME("write.null", write(fd, nowhere, N));
	OUTCOME("pwrite", pwrite(fd, &request, N, 0));
	OUTCOME("pread", pread(fd, response, 4, 0));
	struct iovec v[2] = {{&request, N}, {&request, N}};
	OUTCOME("pwritev", pwritev(fd, v, 1, 0));
	OUTCOME("preadv", preadv(fd, v, 1, 0));
	OUTCOME("pwritev2.at", pwritev2(fd, v, 1, 0, 0));
	OUTCOME("read", read(fd, response, 8));
	OUTCOME("readv", readv(fd, v, 1));
	OUTCOME("preadv2", preadv2(fd, v, 1, -1, 0));
	struct iovec halves[2] = {{&request, 8}, {(char *)&request + 8, N - 8}};
	OUTCOME("writev.halves", writev(fd, halves, 2));
	OUTCOME("writev.none", writev(fd, v, 0));
	volatile int negative = -1;
	OUTCOME("writev.negative", writev(fd, v, negative));
	OUTCOME("writev", writev(fd, v, 1));
	int second = device();
	OUTCOME("writev.twice", writev(second, v, 2));
	int third = device();
	OUTCOME("pwritev2", pwritev2(third, v, 1, -1, 0));
	int fourth = device();
	OUTCOME("syscall", syscall(SYS_write, fourth, &request, N));
	close(second), close(third), close(fourth), close(fd);
}

static void transfers(void)
{
	enum { N = sizeof request };
	int fd = device(), pipes[2];
	MUST(!pipe(pipes));
	int file = memfd_create("file", 0);
	MUST(write(file, command(), N) == N);
	MUST(!lseek(file, 0, SEEK_SET));
	OUTCOME("sendfile.to", sendfile(fd, file, NULL, N));
	OUTCOME("sendfile.from", sendfile(pipes[1], fd, NULL, N));
	MUST(write(pipes[1], command(), N) == N);
	OUTCOME("splice.to", splice(pipes[0], NULL, fd, NULL, N, SPLICE_F_NONBLOCK));
	OUTCOME("splice.from", splice(fd, NULL, pipes[1], NULL, N, SPLICE_F_NONBLOCK));
	OUTCOME("copy.to", copy_file_range(file, NULL, fd, NULL, N, 0));
	OUTCOME("send", send(fd, &request, N, MSG_NOSIGNAL));
	OUTCOME("sendto", sendto(fd, &request, N, MSG_NOSIGNAL, NULL, 0));
	struct iovec v = {&request, N};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	OUTCOME("sendmsg", sendmsg(fd, &m, MSG_NOSIGNAL));
	OUTCOME("recv", recv(fd, response, 8, MSG_DONTWAIT));
	OUTCOME("shutdown", shutdown(fd, SHUT_RDWR));
	int n;
	socklen_t size = sizeof n;
	OUTCOME("getsockopt", getsockopt(fd, SOL_SOCKET, SO_TYPE, &n, &size));
	OUTCOME("lseek", lseek(fd, 0, SEEK_SET));
	OUTCOME("ftruncate", ftruncate(fd, 0));
	OUTCOME("fallocate", fallocate(fd, 0, 0, 10));
	OUTCOME("fsync", fsync(fd));
	OUTCOME("flock", flock(fd, LOCK_EX | LOCK_NB));
	OUTCOME("isatty", isatty(fd) ? 1 : -1);
	OUTCOME("FIONREAD", ioctl(fd, FIONREAD, &n));
	n = 0;
	OUTCOME("FIONBIO", ioctl(fd, FIONBIO, &n));
	OUTCOME("getdents", syscall(SYS_getdents64, fd, buffer, 100));
	OUTCOME("after", write(fd, &request, N));
	close(fd), close(file), close(pipes[0]), close(pipes[1]);
}

/* descriptors duplicates descriptors, and makes a context with each. */
static void descriptors(void)
{
	enum { N = sizeof request };
	int fd = device(), d = dup(fd);
	OUTCOME("dup", write(d, &request, N));
	say("dup.flags", "%d", fcntl(d, F_GETFD));
	OUTCOME("again", write(fd, &request, N));
	close(fd);
	OUTCOME("closed", write(fd, &request, N));
	OUTCOME("left", write(d, &request, N));
	close(d);
	fd = device();
	d = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	say("cloexec.flags", "%d", fcntl(d, F_GETFD));
	OUTCOME("cloexec", write(d, &request, N));
	close(fd), close(d);
	fd = device();
	int file = open("/dev/null", O_RDWR);
	ERROR("dup3.same", dup3(fd, fd, 0) < 0 ? -1 : 0);
	ERROR("dup3.flags", dup3(fd, file, 1) < 0 ? -1 : 0);
	int other = device();
	say("dup3", "%d", dup3(fd, other, O_CLOEXEC) == other);
	say("dup3.cloexec", "%d", fcntl(other, F_GETFD));
	OUTCOME("dup3.write", write(other, &request, N));
	OUTCOME("dup3.original", write(fd, &request, N));
	say("dup2.over", "%d", dup2(file, other) == other);
	OUTCOME("dup2.write", write(other, &request, N));
	close(other), close(file);
	ERROR("close_range", close_range(fd, fd, 0));
	OUTCOME("close_range.write", write(fd, &request, N));
	fd = device();
	say("mode", "%#o", fcntl(fd, F_GETFL) & O_ACCMODE);
	struct stat st;
	ERROR("fstat", fstat(fd, &st));
	say("fstat.type", "%#o, %d", st.st_mode & S_IFMT, (int)major(st.st_rdev));
	struct statx x;
	ERROR("statx", statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x));
	say("statx.type", "%#o, %d", x.stx_mode & S_IFMT, (int)x.stx_rdev_major);
	ERROR("fstatat", fstatat(fd, "", &st, AT_EMPTY_PATH));
	say("fstatat.type", "%#o, %d", st.st_mode & S_IFMT, (int)major(st.st_rdev));
	ERROR("fstatat.below", fstatat(fd, "x", &st, 0));
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	say("poll", "%d", poll(&p, 1, 0));
	say("poll.events", "%#x", p.revents);
	struct timespec now = {0};
	say("ppoll", "%d", ppoll(&p, 1, &now, NULL));
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	struct timeval zero = {0};
	say("select", "%d", select(fd + 1, &set, NULL, NULL, &zero));
	int e = epoll_create1(0);
	struct epoll_event ev = {.events = EPOLLIN};
	ERROR("epoll", epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev));
	close(e);
	const int prot = PROT_READ | PROT_WRITE;
	ERROR("mmap.none", mmap(NULL, PAGE, prot, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	close(fd);
	fd = context->cmd_fd;
	ERROR("mmap.beyond", mmap64(NULL, PAGE, prot, MAP_SHARED, fd, 1 << 30) == MAP_FAILED ? -1 : 0);
	ERROR("mmap.odd", mmap(NULL, PAGE, prot, MAP_SHARED, fd, 1) == MAP_FAILED ? -1 : 0);
	ERROR("read_only", open(device_path, O_RDONLY) < 0 ? -1 : 0);
	ERROR("write_only", open(device_path, O_WRONLY) < 0 ? -1 : 0);
	ERROR("directory", open(device_path, O_RDONLY | O_DIRECTORY) < 0 ? -1 : 0);
	ERROR("exclusive", open(device_path, O_RDWR | O_CREAT | O_EXCL, 0600) < 0 ? -1 : 0);
	ERROR("below", open(text("%s/x", device_path), O_RDWR) < 0 ? -1 : 0);
	ERROR("access", access(device_path, R_OK | W_OK));
	ERROR("execute", access(device_path, X_OK));
	ERROR("readlink", readlink(device_path, buffer, 100) < 0 ? -1 : 0);
	ERROR("opendir", opendir(device_path) ? 0 : -1);
}

/* channels makes calls on the descriptors of events. */
static void channels(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(context);
	MUST(ch);
	int fds[] = {ch->fd, context->async_fd};
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "async" : "completion";
		int fd = fds[i];
		MUST(!fcntl(fd, F_SETFL, O_NONBLOCK));
		ERROR(text("%s.write", name), write(fd, "12345678", 8) < 0 ? -1 : 0);
		ERROR(text("%s.pwrite", name), pwrite(fd, "12345678", 8, 0) < 0 ? -1 : 0);
		struct iovec v = {buffer, 16};
		ERROR(text("%s.writev", name), writev(fd, &v, 1) < 0 ? -1 : 0);
		ERROR(text("%s.send", name), send(fd, "12345678", 8, MSG_NOSIGNAL) < 0 ? -1 : 0);
		ERROR(text("%s.read", name), read(fd, buffer, 16) < 0 ? -1 : 0);
		ERROR(text("%s.readv", name), readv(fd, &v, 1) < 0 ? -1 : 0);
		ERROR(text("%s.pread", name), pread(fd, buffer, 16, 0) < 0 ? -1 : 0);
		ERROR(text("%s.lseek", name), lseek(fd, 0, SEEK_SET) < 0 ? -1 : 0);
		ERROR(text("%s.ftruncate", name), ftruncate(fd, 0));
		int n;
		ERROR(text("%s.FIONREAD", name), ioctl(fd, FIONREAD, &n));
		ERROR(text("%s.ioctl", name), ioctl(fd, 0xc0181b01, buffer));
		ERROR(text("%s.mmap", name), mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
		struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
		say(text("%s.poll", name), "%d", poll(&p, 1, 0));
		say(text("%s.poll.events", name), "%#x", p.revents);
		int e = epoll_create1(0);
		struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
		ERROR(text("%s.epoll", name), epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev));
		say(text("%s.epoll_wait", name), "%d", epoll_wait(e, &ev, 1, 0));
		close(e);
		int d = dup(fd);
		ERROR(text("%s.dup.read", name), read(d, buffer, 16) < 0 ? -1 : 0);
		close(d);
	}
	ERROR("destroy", ibv_destroy_comp_channel(ch));
}

/* paths makes calls with paths of sysfs. */
static void paths(void)
{
	const char *base = text("/sys/class/infiniband/%s", context->device->name);
	const char *file = text("%s/node_type", base), *list = text("%s/ports", base);
	struct stat st;
	ERROR("stat", fstatat(AT_FDCWD, file, &st, 0));
	say("stat.type", "%#o, %ld", st.st_mode, (long)st.st_size);
	ERROR("stat.slash", stat(text("%s/", file), &st));
	ERROR("stat.none", stat(text("%s/none", base), &st));
	struct statx x;
	ERROR("statx", statx(AT_FDCWD, file, 0, STATX_BASIC_STATS, &x));
	say("statx.type", "%#o, %ld", x.stx_mode, (long)x.stx_size);
	int dir, fd;
	ERROR("directory", (dir = open(base, O_RDONLY | O_DIRECTORY)) < 0 ? -1 : 0);
	ERROR("fstatat", fstatat(dir, "node_type", &st, 0));
	say("fstatat.type", "%#o, %ld", st.st_mode, (long)st.st_size);
	ERROR("faccessat", faccessat(dir, "node_type", R_OK, 0));
	ERROR("openat", (fd = openat(dir, "node_type", O_RDONLY)) < 0 ? -1 : 0);
	char b[64] = {0};
	say("openat.read", "%d", (int)read(fd, b, sizeof b));
	say("pread", "%d", (int)pread(fd, b, 2, 1));
	say("pread.content", "%.2s", b);
	say("lseek", "%d", (int)lseek(fd, 0, SEEK_SET));
	struct iovec v = {b, 3};
	say("readv", "%d", (int)readv(fd, &v, 1));
	ERROR("write", write(fd, "x", 1) < 0 ? -1 : 0);
	say("end", "%d", (int)pread(fd, b, 2, 100));
	fstat(fd, &st);
	say("fstat.type", "%#o, %ld", st.st_mode & S_IFMT, (long)st.st_size);
	close(fd);
	uint64_t how[3] = {O_RDONLY};
	ERROR("openat2", (fd = syscall(SYS_openat2, AT_FDCWD, file, how, sizeof how)) < 0 ? -1 : 0);
	close(fd);
	ERROR("syscall", (fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY)) < 0 ? -1 : 0);
	close(fd);
	DIR *d;
	ERROR("opendir", (d = opendir(list)) ? 0 : -1);
	int ports = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		ports += e->d_name[0] == '1' && !e->d_name[1];
	say("readdir", "%d", ports);
	if (d)
		closedir(d);
	fd = open(list, O_RDONLY | O_DIRECTORY);
	int n = syscall(SYS_getdents64, fd, buffer, BUFFER);
	ports = 0;
	for (int at = 0; at < n; at += *(uint16_t *)(buffer + at + 16))
		ports += !strcmp(buffer + at + 19, "1");
	say("getdents", "%d", ports);
	close(fd);
	ERROR("unlink", unlink(file));
	ERROR("mkdir", mkdir(text("%s/new", base), 0700));
	ERROR("rename", rename(file, "/tmp/x"));
	ERROR("truncate", truncate(file, 0));
	ERROR("chmod", chmod(file, 0600));
	ERROR("access", access(file, R_OK));
	ERROR("access.none", access(text("%s/none", base), F_OK));
	ERROR("readlink", readlink(file, b, sizeof b) < 0 ? -1 : 0);
	say("realpath", "%d", realpath(file, buffer) != NULL);
	FILE *f = fopen(file, "r");
	say("fopen", "%d", f && fgets(b, sizeof b, f) && b[0] == '1');
	if (f)
		fclose(f);
	ERROR("fopen.write", fopen(file, "w") ? 0 : -1);
	ERROR("fopen.none", fopen(text("%s/none", base), "r") ? 0 : -1);
	close(dir);
}

const struct probe file_probes[] = {{"writes", writes},	  {"transfers", transfers}, {"descriptors", descriptors},
				    {"channels", channels}, {"paths", paths},	    {0}};
