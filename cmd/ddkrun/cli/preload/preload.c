/*
 * The carrier of ddkrun for programs that use the C library: it is preloaded (LD_PRELOAD) and redirects the files of
 * Linux's RDMA subsystem to a daemon. Package ciddk/internal/kproxy/devices describes the messages. ddkrun sets
 *
 *   DDKRUN_SOCKET  path of the daemon's socket
 *   DDKRUN_ROOT    directory with the files of the tree: $DDKRUN_ROOT/sys/class/infiniband/...
 *   DDKRUN_SHARE_MEMORY  when memory that is registered is shared with the daemon: auto, always or never (share.c)
 *   DDKRUN_STOCK  faults of libibverbs's user library are not worked around (library.c)
 *
 * Rules of this file: no call before main is needed; nothing is kept that a fork, an exec or another thread could make
 * wrong; the descriptor that the program has of a device file is the connection itself, so that the kernel decides when
 * it is closed. The table of descriptors is a cache: an entry counts only if the descriptor is still the same socket.
 *
 * Other libraries may wrap the functions of this file, or patch them in place (UCX, fakeroot, sanitizers), and their
 * functions call others of the C library. Therefore no function of this library calls one that it exports: such calls
 * would come back. A call that is none of ours goes to the next function of the same name, by which it would have gone
 * without this library, and the library's own calls are system calls.
 */
#include <alloca.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The protocol of package devices. */
enum { OP_OPEN = 1, OP_WRITE, OP_IOCTL, OP_BELL, OP_READ = 6, OP_CONTENT };
enum { FLAG_NEED_FILE = 1, FLAG_BELL = 2, FLAG_NO_BELL = 4, FLAG_MEMORY = 8, FLAG_WAIT = 16, FLAG_QUIET = 32,
       FLAG_QUIET_FILE = 64, FLAG_NEED_MEMORY = 128, FLAG_COPIES = 256 };
enum { MAX_RANGES = 24, MAX_REPEATS = 8 };
enum { VERSION = 7, MAX_FILES = 8, MAX_REQUEST = (64 << 10) - 24, MAX_REPLY = 128 << 10 };

struct request {
	uint32_t op, files;
	uint64_t a, b;
	int is_interrupted; /* by a signal, after which the kernel restarts no call; it is not sent */
};

enum { REQUEST_SIZE = offsetof(struct request, is_interrupted) };

struct reply {
	uint32_t error, flags;
	int64_t result;
	uint32_t number, bell_handle, bell_index, files, stores, ranges;
};

struct store {
	uint64_t addr, size;
};

/* A piece of a request: memory of the program, which may be wrong, or our own. */
struct piece {
	const void *b;
	size_t size;
};

struct opened {
	uint32_t major, minor, pid, version;
};

/* A device is an open device file. It is never freed, since other threads may look at it; close makes it reusable. */
struct device {
	struct device *next; /* in free_devices */
	atomic_int refs;     /* entries of the table */
	dev_t sock_dev;
	ino_t sock_ino; /* identifies the socket */
	dev_t rdev;
	int is_netlink; /* a netlink socket, whose datagrams the connection transports */
	uint32_t port;  /* of a netlink socket */
	_Atomic(char *) memory;
	size_t memory_size;
	int memory_fd; /* of the memory, if it is still that file, by which the program maps it again */
	dev_t memory_dev;
	ino_t memory_ino;
	_Atomic uint64_t bells[MAX_BELLS]; /* of QPs, by index: handle + 1, or 0 */
	_Atomic uint16_t hints[MAX_BELLS]; /* by handle modulo the size: the index that was used last */
	_Atomic uint32_t bell_end;         /* indexes from here on were never used */

	/* copies.c */
	struct device *other;          /* in all_devices */
	pid_t pid;                     /* of the process that opened the file */
	pthread_mutex_t register_lock; /* held during commands that register memory */
	atomic_int is_copied;          /* a thread copies memory for the daemon */
	pthread_mutex_t copies_lock;   /* of what follows; held during a copy */
	struct region *regions;
	int region_count;
	int has_others; /* regions are missing in the list */
	uint64_t last_token;
};

/*
 * The settings of ddkrun, as entries of an environment, and the path of this library. They are those with which the
 * program has started, since a program may change or clear its environment.
 */
enum { SOCKET_PATH, ROOT, SHARE_MEMORY, STOCK, SETTING_COUNT, MAX_SETTING = PATH_MAX + 32 };

static const char *const setting_names[] = {"DDKRUN_SOCKET", "DDKRUN_ROOT", "DDKRUN_SHARE_MEMORY", "DDKRUN_STOCK"};
static char *settings[SETTING_COUNT];
static const char *library = "";

static void keep_settings(void)
{
	static char texts[SETTING_COUNT][MAX_SETTING];
	Dl_info info;
	if (dladdr((void *)keep_settings, &info) && info.dli_fname)
		library = info.dli_fname;
	for (int i = 0; i < SETTING_COUNT; i++) {
		const char *value = getenv(setting_names[i]);
		if (value && strlen(setting_names[i]) + 1 + strlen(value) < MAX_SETTING)
			settings[i] = strcat(strcat(strcpy(texts[i], setting_names[i]), "="), value);
	}
}

/* setting returns the value of a setting, or NULL. */
static const char *setting(int i)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, keep_settings);
	return settings[i] ? settings[i] + strlen(setting_names[i]) + 1 : NULL;
}

static int raw_close(int fd) { return RAW(SYS_close, fd); }

static int raw_fstat(int fd, struct stat *st) { return RAW(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH); }

/* is_same reports whether a descriptor is still that of a file. */
static int is_same(int fd, dev_t dev, ino_t ino)
{
	struct stat st;
	return fd >= 0 && raw_fstat(fd, &st) == 0 && st.st_ino == ino && st.st_dev == dev;
}

static pid_t own_pid(void) { return RAW(SYS_getpid); }

static void *map_pages(size_t size)
{
	long p = RAW(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == -1 ? NULL : (void *)p;
}

/* The table of descriptors. Its chunks exist from the first device in each on. */
enum { CHUNK = 1 << 16 };
typedef _Atomic(struct device *) entry_of_table;
static entry_of_table first_chunk[CHUNK];
static _Atomic(entry_of_table *) chunks[INT_MAX / CHUNK + 1];

/* entry_at returns the entry of a descriptor, or NULL if it has none, which it gets if there is memory. */
static entry_of_table *entry_at(int fd, int is_new)
{
	if (fd < CHUNK)
		return fd < 0 ? NULL : &first_chunk[fd];
	entry_of_table *c = atomic_load_explicit(&chunks[fd / CHUNK], memory_order_acquire), *none = NULL;
	if (!c && is_new && (c = map_pages(CHUNK * sizeof *c)) &&
	    !atomic_compare_exchange_strong(&chunks[fd / CHUNK], &none, c)) {
		RAW(SYS_munmap, c, CHUNK * sizeof *c);
		c = none;
	}
	return c ? &c[fd % CHUNK] : NULL;
}

static struct device *device_at(int fd)
{
	entry_of_table *e = entry_at(fd, 0);
	return e ? atomic_load_explicit(e, memory_order_acquire) : NULL;
}

static _Atomic(struct device *) free_devices, all_devices;

static void recycle(struct device *d)
{
	struct device *head = atomic_load(&free_devices);
	do
		d->next = head;
	while (!atomic_compare_exchange_weak(&free_devices, &head, d));
}

static void forget_regions(struct device *d);
static int raise_fd(int fd);

/* init_device sets what belongs to the process. */
static struct device *init_device(struct device *d)
{
	if (!d)
		return NULL;
	d->pid = own_pid();
	d->is_copied = d->has_others = d->region_count = 0;
	pthread_mutex_init(&d->register_lock, NULL);
	pthread_mutex_init(&d->copies_lock, NULL);
	return d;
}

/* new_device returns a device with zeros, or NULL. It takes the whole list, so that no other thread can use an entry. */
static struct device *new_device(void)
{
	struct device *d = atomic_exchange(&free_devices, NULL);
	if (!d) {
		d = init_device(map_pages(sizeof *d));
		if (d) {
			d->other = atomic_load(&all_devices);
			while (!atomic_compare_exchange_weak(&all_devices, &d->other, d))
				;
		}
		return d;
	}
	for (struct device *n = d->next, *after; n; n = after) {
		after = n->next;
		recycle(n);
	}
	for (uint32_t i = 0, end = atomic_exchange(&d->bell_end, 0); i < end; i++)
		atomic_store_explicit(&d->bells[i], 0, memory_order_relaxed);
	d->is_netlink = 0;
	d->port = 0;
	return init_device(d);
}

static void drop(struct device *d)
{
	if (atomic_fetch_sub(&d->refs, 1) != 1)
		return;
	char *m = atomic_exchange(&d->memory, NULL);
	if (m) {
		RAW(SYS_munmap, m, d->memory_size);
		if (is_same(d->memory_fd, d->memory_dev, d->memory_ino))
			raw_close(d->memory_fd);
	}
	forget_regions(d);
	recycle(d);
}

/* enter makes a descriptor that of a device, or of none. It returns -1 with errno if there is no memory. */
static int enter(int fd, struct device *d)
{
	entry_of_table *e = entry_at(fd, d != NULL);
	if (!e)
		return d ? set_errno(-ENOMEM) : 0;
	if (!d && !atomic_load_explicit(e, memory_order_acquire))
		return 0;
	if (d)
		atomic_fetch_add(&d->refs, 1);
	struct device *old = atomic_exchange(e, d);
	if (old)
		drop(old);
	return 0;
}

/* lookup returns the device of a descriptor, if it is still that of an open device file. */
static struct device *lookup(int fd)
{
	struct device *d = device_at(fd);
	if (!d)
		return NULL;
	int saved = errno;
	struct stat st;
	if (raw_fstat(fd, &st) == 0 && st.st_ino == d->sock_ino && st.st_dev == d->sock_dev)
		return d;
	errno = saved;
	enter(fd, NULL);
	return NULL;
}

/* Requests and replies. */

static int send_request(int fd, struct request *q, const struct piece *p, int pieces, const int *fds, int count)
{
	char control[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct iovec iov[1 + 2 * MAX_RANGES] = {{q, REQUEST_SIZE}};
	for (int i = 0; i < pieces; i++)
		iov[1 + i] = (struct iovec){(void *)p[i].b, p[i].size};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 1 + pieces};
	if (count) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	for (;;) {
		if (RAW(SYS_sendmsg, fd, &m, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EAGAIN) { /* the program has made the descriptor non-blocking */
			struct pollfd p = {.fd = fd, .events = POLLOUT};
			RAW(SYS_ppoll, &p, 1, NULL, NULL, 0);
		} else if (errno != EINTR) {
			return -1;
		} else {
			q->is_interrupted = 1;
		}
	}
}

/* receive_reply receives a reply of at most MAX_REPLY bytes. Its descriptors are in fds. */
static ssize_t receive_reply(int fd, struct request *q, char *b, int *fds, int *count)
{
	char control[CMSG_SPACE(MAX_FILES * sizeof(int))];
	struct iovec iov = {b, MAX_REPLY};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	ssize_t n;
	while ((n = RAW(SYS_recvmsg, fd, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		q->is_interrupted = 1;
	*count = 0;
	if (n < 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			*count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), *count * sizeof(int));
		}
	return n;
}

/* store copies to an address of the program, which may be wrong. */
static int store(uint64_t addr, const void *data, size_t size)
{
	struct iovec from = {(void *)data, size}, to = {(void *)(uintptr_t)addr, size};
	ssize_t n = RAW(SYS_process_vm_writev, own_pid(), &from, 1, &to, 1, 0);
	if (n == (ssize_t)size)
		return 0;
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* the system does not permit the checked way */
		memcpy((void *)(uintptr_t)addr, data, size);
		return 0;
	}
	errno = EFAULT;
	return -1;
}

/* find_bell returns the index of a QP's bell, or -1. No two QPs have one bell, but their handles may be congruent. */
static int find_bell(struct device *d, uint32_t handle)
{
	const uint64_t want = (uint64_t)handle + 1;
	_Atomic uint16_t *hint = &d->hints[handle % MAX_BELLS];
	uint32_t i = atomic_load_explicit(hint, memory_order_relaxed), end;
	if (atomic_load_explicit(&d->bells[i], memory_order_acquire) == want)
		return i;
	end = atomic_load_explicit(&d->bell_end, memory_order_acquire);
	for (i = 0; i < end; i++)
		if (atomic_load_explicit(&d->bells[i], memory_order_acquire) == want) {
			atomic_store_explicit(hint, i, memory_order_relaxed);
			return i;
		}
	return -1;
}

static void set_bell(struct device *d, const struct reply *r)
{
	uint64_t value = (uint64_t)r->bell_handle + 1;
	if (r->flags & FLAG_BELL) {
		uint32_t i = r->bell_index % MAX_BELLS, end = atomic_load(&d->bell_end);
		while (end <= i && !atomic_compare_exchange_weak(&d->bell_end, &end, i + 1))
			;
		atomic_store(&d->bells[i], value);
		atomic_store(&d->hints[r->bell_handle % MAX_BELLS], i);
	} else {
		int i = find_bell(d, r->bell_handle);
		if (i >= 0) /* unless it is that of another QP by now */
			atomic_compare_exchange_strong(&d->bells[i], &value, 0);
	}
}

static void start_copies(struct device *d, int fd);

/* accept_reply does what a reply asks for. It takes the descriptors over. needs are the ranges that the reply has. */
static int accept_reply(struct device *d, char *b, ssize_t n, int *fds, int count, struct store *needs)
{
	struct reply *r = (struct reply *)b;
	char *p = b + sizeof *r, *end = b + n;
	int next = 0;
	if (n < (ssize_t)sizeof *r || r->files != (uint32_t)count || end - p < count * 8)
		goto bad;
	if (d && r->flags & (FLAG_BELL | FLAG_NO_BELL))
		set_bell(d, r);
	uint64_t *addrs = (uint64_t *)p;
	p += count * 8;
	for (uint32_t i = 0; i < r->stores; i++) {
		struct store *s = (struct store *)p;
		if (end - p < (ptrdiff_t)sizeof *s || s->size > (uint64_t)(end - p) - sizeof *s)
			goto bad;
		p += sizeof *s;
		if (s->addr && store(s->addr, p, s->size))
			goto fail;
		p += (s->size + 7) & ~7ul;
		if (p > end)
			goto bad;
	}
	if (r->flags & FLAG_NEED_MEMORY) {
		if (!needs || r->ranges > MAX_RANGES || end - p < (ptrdiff_t)(r->ranges * sizeof *needs))
			goto bad;
		memcpy(needs, p, r->ranges * sizeof *needs);
	}
	if (count && r->flags & FLAG_MEMORY) {
		struct stat st;
		void *m = MAP_FAILED;
		if (d && raw_fstat(fds[0], &st) == 0)
			m = (void *)RAW(SYS_mmap, NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
		next = 1;
		if (m == MAP_FAILED) {
			raw_close(fds[0]);
			errno = ENOMEM;
			goto fail;
		}
		d->memory_size = st.st_size;
		d->memory_dev = st.st_dev;
		d->memory_ino = st.st_ino;
		d->memory_fd = raise_fd(fds[0]);
		atomic_store(&d->memory, m);
	}
	if (count && r->flags & FLAG_COPIES) {
		next = 1;
		if (d)
			start_copies(d, fds[0]);
		else
			raw_close(fds[0]);
	}
	for (int i = next; i < count; i++)
		if (addrs[i] && store(addrs[i], &fds[i], sizeof fds[i])) {
			next = i;
			goto fail;
		}
	if (r->error) {
		errno = r->error;
		return -1;
	}
	return 0;
bad:
	errno = EIO;
fail:;
	int saved = errno;
	for (int i = next; i < count; i++)
		raw_close(fds[i]);
	errno = saved;
	return -1;
}

/* Buffers of MAX_REPLY bytes: one is kept for the next call, and calls at the same time have others. */
static _Atomic(char *) spare_buffer;

static char *take_buffer(void)
{
	char *b = atomic_exchange(&spare_buffer, NULL);
	return b ? b : map_pages(MAX_REPLY);
}

static void return_buffer(char *b)
{
	if (b && (b = atomic_exchange(&spare_buffer, b)))
		RAW(SYS_munmap, b, MAX_REPLY);
}

/* call sends a request and receives the reply in b, of MAX_REPLY bytes, or returns -1. */
static int call(int fd, struct device *d, struct request *q, const struct piece *p, int pieces, int attached, char *b,
		struct store *needs)
{
	int pair[2], fds[MAX_FILES], count = 0, sent, failed;
	if (RAW(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	int files[2] = {pair[1], attached};
	q->files = attached >= 0;
	sent = send_request(fd, q, p, pieces, files, 1 + q->files);
	failed = errno;
	raw_close(pair[1]);
	ssize_t n = 0;
	if (sent == 0)
		n = receive_reply(pair[0], q, b, fds, &count);
	else if (failed != EFAULT && failed != EBADF)
		failed = EIO; /* the daemon is gone */
	raw_close(pair[0]);
	if (sent < 0) {
		errno = failed;
		return -1;
	}
	if (n <= 0) {
		errno = EIO;
		return -1;
	}
	return accept_reply(d, b, n, fds, count, needs);
}

/* System calls on device files. */

/* receive_wake receives one of the messages that make a descriptor readable. */
static void receive_wake(int fd)
{
	char b;
	struct iovec iov = {&b, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	RAW(SYS_recvmsg, fd, &m, MSG_DONTWAIT);
}

/*
 * call_daemon executes a call. It sets *wait if the call would block and the descriptor is a blocking one. shared is the
 * descriptor of memory that the call is about, or -1.
 */
static ssize_t call_daemon(int fd, struct device *d, struct request *q, const void *data, size_t size, int shared,
			 int *wait)
{
	*wait = 0;
	char *b = take_buffer();
	if (!b) {
		errno = ENOMEM;
		return -1;
	}
	struct reply *r = (struct reply *)b;
	memset(r, 0, sizeof *r);
	ssize_t result = -1;
	struct store needs[MAX_RANGES], have[MAX_RANGES];
	struct piece pieces[2 * MAX_RANGES] = {{data, size}};
	int count = 1, attached = -1, ok = call(fd, d, q, pieces, count, shared, b, needs);
	for (int i = 0; ok == 0 && r->flags & FLAG_NEED_MEMORY; i++) {
		if (i == MAX_REPEATS) { /* another thread changes the memory */
			errno = EFAULT;
			ok = -1;
			break;
		}
		memcpy(have, needs, sizeof have);
		count = 2 * r->ranges;
		for (int k = 0; k < count; k += 2) {
			pieces[k] = (struct piece){&have[k / 2], sizeof have[0]};
			pieces[k + 1] = (struct piece){(void *)(uintptr_t)have[k / 2].addr, have[k / 2].size};
		}
		memset(r, 0, sizeof *r);
		ok = call(fd, d, q, pieces, count, -1, b, needs);
	}
	if (ok == 0 && r->flags & FLAG_NEED_FILE) {
		attached = (int)r->number;
		if (q->op == OP_IOCTL)
			q->a = (uint32_t)q->a | (uint64_t)r->number << 32;
		else
			q->a = r->number;
		memset(r, 0, sizeof *r);
		ok = call(fd, d, q, pieces, count, attached, b, needs);
		if (ok == 0 && r->flags & FLAG_NEED_MEMORY) { /* another thread has changed the memory */
			errno = EFAULT;
			ok = -1;
		} else if (ok == 0 && r->flags & FLAG_NEED_FILE) {
			errno = EBADF;
			ok = -1;
		}
	}
	if (ok == 0)
		result = r->result;
	int saved = errno;
	if (r->flags & FLAG_QUIET)
		receive_wake(fd);
	if (r->flags & FLAG_QUIET_FILE && attached >= 0)
		receive_wake(attached);
	if (ok < 0 && saved == EAGAIN && r->flags & FLAG_WAIT) {
		long flags = RAW(SYS_fcntl, fd, F_GETFL, 0);
		*wait = flags < 0 || !(flags & O_NONBLOCK); /* negative: another thread has closed it */
	}
	return_buffer(b);
	errno = saved;
	return result;
}

/*
 * cancellable executes a system call that waits, at which a thread can be cancelled, as it can at a read of a device. The
 * kernel restarts the call after a signal whose handler has SA_RESTART, as it does with poll in no case.
 */
static long cancellable(long number, long a, const void *b, long c, long d)
{
	int type;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	long r = RAW(number, a, b, c, d);
	pthread_setcanceltype(type, NULL);
	return r;
}

static ssize_t call_device(int fd, struct device *d, struct request *q, const void *data, size_t size, int shared)
{
	const dev_t dev = d->sock_dev;
	const ino_t ino = d->sock_ino;
	for (;;) {
		char b;
		int wait, never = 0;
		ssize_t result = call_daemon(fd, d, q, data, size, shared, &wait);
		if (!wait)
			return result;
		if (q->is_interrupted)
			return set_errno(-EINTR);
		if (cancellable(SYS_recvfrom, fd, &b, sizeof b, MSG_PEEK) < 0 && (errno == EINTR || errno == EAGAIN))
			return -1;
		/* Another thread has closed the descriptor. A call that waits in the kernel would keep the file, and would not
		 * end: the thread of rping that waits for events depends on it. */
		while (!is_same(fd, dev, ino))
			if (cancellable(SYS_futex, (long)&never, (void *)FUTEX_WAIT_PRIVATE, never, 0) < 0 && errno == EINTR)
				return -1;
	}
}

/* ring starts the send queue of a QP without a system call, unless the adapter sleeps. */
static int ring(int fd, struct device *d, uint32_t handle)
{
	char *m = atomic_load_explicit(&d->memory, memory_order_acquire);
	int index = find_bell(d, handle);
	if (index < 0 || !m)
		return 0;
	_Atomic uint32_t *asleep = mark(m, index);
	if (atomic_load(asleep) && atomic_exchange(asleep, 0)) {
		struct request q = {.op = OP_BELL};
		int saved = errno;
		send_request(fd, &q, NULL, 0, NULL, 0); /* if the daemon is gone, the next command reports it */
		errno = saved;
	}
	return 1;
}

/* A registration is a command that makes, changes or destroys an MR. */
struct registration {
	uint32_t command;
	uint64_t response; /* of REG_MR: its address, where the handle of the MR comes first */
	uint32_t handle;   /* of the other commands */
	uint32_t flags;    /* of REREG_MR */
	uint64_t start, size;
	int has_memory;
	int is_writable; /* by the daemon */
	int is_written;  /* its pages are brought in by writes */
};


enum { REG_MR = 9, REREG_MR = 11, DEREG_MR = 13, UVERBS_MAJOR = 231, UVERBS_MINOR = 192 };

static int is_uverbs(const struct device *d) { return major(d->rdev) == UVERBS_MAJOR && minor(d->rdev) >= UVERBS_MINOR; }

static void note_ioctl(unsigned long request, const void *arg);
static long memory_call(long number, const long *a, int *known);
static int destroyed_mr(struct device *d, unsigned long request, const void *arg, uint32_t *handle);
static void remove_regions(struct device *d, uint64_t token, uint32_t handle, uint64_t except);
static int parse_registration(const void *buf, size_t size, struct registration *r);
static ssize_t register_memory(int fd, struct device *d, const void *buf, size_t size, struct registration *r);

/* file returns the device of a descriptor, if it is one of a device file. */
static struct device *file(int fd)
{
	struct device *d = device_at(fd);
	return d && !d->is_netlink ? lookup(fd) : NULL;
}

/* is_rung reports whether a write is the command that starts a send queue, and has been executed. */
static int is_rung(int fd, struct device *d, const void *buf, size_t size)
{
	uint32_t handle;
	return is_doorbell(buf, size, &handle) && ring(fd, d, handle);
}

static ssize_t write_device(int fd, struct device *d, void *buf, size_t size)
{
	if (size > MAX_REQUEST)
		return set_errno(-EINVAL);
	struct registration r;
	if (is_uverbs(d) && parse_registration(buf, size, &r))
		return register_memory(fd, d, buf, size, &r);
	struct request q = {.op = OP_WRITE};
	return call_device(fd, d, &q, buf, size, -1);
}

EXPORT ssize_t write(int fd, const void *buf, size_t size)
{
	struct device *d = device_at(fd);
	if (d && is_rung(fd, d, buf, size))
		return size;
	return d && (d = file(fd)) ? write_device(fd, d, (void *)buf, size) : REAL(write)(fd, buf, size);
}

static ssize_t read_device(int fd, struct device *d, void *buf, size_t size)
{
	struct request q = {.op = OP_READ, .a = size, .b = (uintptr_t)buf};
	return call_device(fd, d, &q, NULL, 0, -1);
}

EXPORT ssize_t read(int fd, void *buf, size_t size)
{
	struct device *d = file(fd);
	return d ? read_device(fd, d, buf, size) : REAL(read)(fd, buf, size);
}

/*
 * __read_chk is the read of programs that were compiled with _FORTIFY_SOURCE. Other functions whose names end with _chk
 * or _2 are alike.
 */
EXPORT ssize_t __read_chk(int fd, void *buf, size_t size, size_t room);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t size, size_t room)
{
	struct device *d = size <= room ? file(fd) : NULL;
	return d ? read_device(fd, d, buf, size) : REAL(__read_chk)(fd, buf, size, room);
}

/*
 * transfer_vector executes a vector as the kernel does on files without calls for vectors: one call for each part, until
 * one fails or transfers less.
 */
static ssize_t transfer_vector(ssize_t (*transfer)(int, struct device *, void *, size_t), int fd, struct device *d,
			       const struct iovec *v, int count)
{
	struct iovec part;
	ssize_t total = 0;
	if (count < 0 || count > IOV_MAX)
		return set_errno(-EINVAL);
	for (int i = 0; i < count; i++) {
		struct iovec from = {(void *)(v + i), sizeof part}, to = {&part, sizeof part};
		if (RAW(SYS_process_vm_readv, own_pid(), &to, 1, &from, 1, 0) != sizeof part) {
			if (errno == EFAULT)
				return total ? total : -1;
			part = v[i]; /* the system does not permit the checked way */
		}
		ssize_t n = transfer(fd, d, part.iov_base, part.iov_len);
		if (n < 0)
			return total ? total : -1;
		total += n;
		if ((size_t)n < part.iov_len)
			break;
	}
	return total;
}

/* VECTOR executes a call on a vector if the descriptor is that of a device file, and otherwise the real one. */
#define VECTOR(is_ours, transfer, real, ...)                                                                           \
	struct device *d = is_ours ? file(fd) : NULL;                                                                  \
	return d ? transfer_vector(transfer, fd, d, v, count) : REAL(real)(fd, v, count, ##__VA_ARGS__)

EXPORT ssize_t writev(int fd, const struct iovec *v, int count) { VECTOR(1, write_device, writev); }
EXPORT ssize_t readv(int fd, const struct iovec *v, int count) { VECTOR(1, read_device, readv); }

/* The offset -1 is the position, which devices do not have. */

EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
	VECTOR(at == -1, write_device, pwritev2, at, flags);
}

EXPORT ssize_t preadv2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
	VECTOR(at == -1, read_device, preadv2, at, flags);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *v, int count, off64_t at, int flags)
{
	VECTOR(at == -1, write_device, pwritev64v2, at, flags);
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *v, int count, off64_t at, int flags)
{
	VECTOR(at == -1, read_device, preadv64v2, at, flags);
}

/* Devices have no data that the kernel could move. */

static ssize_t fail(int e) { return set_errno(-e); }

EXPORT ssize_t sendfile(int to, int from, off_t *at, size_t size)
{
	return file(to) || file(from) ? fail(EINVAL) : REAL(sendfile)(to, from, at, size);
}

EXPORT ssize_t sendfile64(int to, int from, off64_t *at, size_t size)
{
	return file(to) || file(from) ? fail(EINVAL) : REAL(sendfile64)(to, from, at, size);
}

EXPORT ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags)
{
	return file(to) || file(from) ? fail(EINVAL) : REAL(splice)(from, from_at, to, to_at, size, flags);
}

/* The descriptor of a device is a socket, which the program must not find out, and by which it must not send. */

EXPORT ssize_t send(int fd, const void *b, size_t size, int flags)
{
	return file(fd) ? fail(ENOTSOCK) : REAL(send)(fd, b, size, flags);
}

EXPORT ssize_t recv(int fd, void *b, size_t size, int flags)
{
	return file(fd) ? fail(ENOTSOCK) : REAL(recv)(fd, b, size, flags);
}

EXPORT ssize_t __recv_chk(int fd, void *b, size_t size, size_t room, int flags);
EXPORT ssize_t __recv_chk(int fd, void *b, size_t size, size_t room, int flags)
{
	return file(fd) ? fail(ENOTSOCK) : REAL(__recv_chk)(fd, b, size, room, flags);
}

EXPORT int shutdown(int fd, int how) { return file(fd) ? fail(ENOTSOCK) : REAL(shutdown)(fd, how); }

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	return file(fd) ? fail(ENOTSOCK) : REAL(getsockopt)(fd, level, name, value, size);
}

EXPORT int getpeername(int fd, struct sockaddr *a, socklen_t *size)
{
	return file(fd) ? fail(ENOTSOCK) : REAL(getpeername)(fd, a, size);
}

static int ioctl_device(int fd, struct device *d, unsigned long request, void *arg)
{
	struct request q = {.op = OP_IOCTL, .a = (uint32_t)request, .b = (uintptr_t)arg};
	uint32_t handle;
	int is_end = is_uverbs(d) && destroyed_mr(d, request, arg, &handle);
	ssize_t n = call_device(fd, d, &q, NULL, 0, -1);
	if (is_end && n >= 0)
		remove_regions(d, 0, handle, 0);
	return n;
}

/* is_of_kernel reports whether the kernel executes an ioctl on a device file: it concerns the descriptor. */
static int is_of_kernel(unsigned long request)
{
	return request == FIOCLEX || request == FIONCLEX || request == FIONBIO || request == FIOASYNC;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	struct device *d = is_of_kernel(request) ? NULL : file(fd);
	note_ioctl(request, arg);
	if (!d)
		return REAL(ioctl)(fd, request, arg);
	return ioctl_device(fd, d, request, arg);
}

/* map_file maps memory of a device. *is_ours is 0 for all other files, and for no file. */
static void *map_file(void *addr, size_t size, int prot, int flags, int fd, off_t off, int *is_ours)
{
	struct device *d = flags & MAP_ANONYMOUS ? NULL : device_at(fd);
	*is_ours = d && (d = lookup(fd));
	if (!*is_ours)
		return MAP_FAILED;
	char *m = atomic_load(&d->memory);
	size_t page = sysconf(_SC_PAGESIZE), whole = (size + page - 1) & ~(page - 1);
	if (!m || size == 0 || off < 0 || (size_t)off % page || (size_t)off > d->memory_size ||
	    whole > d->memory_size - (size_t)off || !(flags & MAP_SHARED))
		return (void *)set_errno(-EINVAL);
	if (is_same(d->memory_fd, d->memory_dev, d->memory_ino))
		return (void *)RAW(SYS_mmap, addr, whole, prot, flags, d->memory_fd, off);
	/* The program has closed the descriptor. An old size of 0 duplicates a shared mapping. */
	long p = RAW(SYS_mremap, m + off, 0, whole, MREMAP_MAYMOVE, NULL);
	if (p != -1 && prot != (PROT_READ | PROT_WRITE))
		RAW(SYS_mprotect, p, whole, prot);
	return (void *)p;
}

EXPORT void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off)
{
	int is_ours;
	void *p = map_file(addr, size, prot, flags, fd, off, &is_ours), *(*real)(void *, size_t, int, int, int, off_t);
	if (is_ours)
		return p;
	real = READY(mmap);
	return real ? real(addr, size, prot, flags, fd, off) : (void *)RAW(SYS_mmap, addr, size, prot, flags, fd, off);
}

/* mmap64 is mmap, as in the C library, so that hooks in place of one find the calls of both. */
extern __typeof__(mmap) own_mmap __attribute__((alias("mmap"), copy(mmap), visibility("hidden")));

EXPORT void *mmap64(void *addr, size_t size, int prot, int flags, int fd, off64_t off)
{
	void *(*real)(void *, size_t, int, int, int, off64_t) = READY(mmap64);
	int is_other = real && (void *)real != (void *)READY(mmap) && !device_at(fd);
	return is_other ? real(addr, size, prot, flags, fd, off) : own_mmap(addr, size, prot, flags, fd, off);
}

/* Descriptors. */

EXPORT int close(int fd)
{
	enter(fd, NULL);
	return REAL(close)(fd);
}

static int copied(int from, int to)
{
	if (to >= 0 && to != from) {
		struct device *d = device_at(from);
		if ((d || device_at(to)) && enter(to, d)) {
			raw_close(to);
			return fail(ENOMEM);
		}
	}
	return to;
}

EXPORT int dup(int fd) { return copied(fd, REAL(dup)(fd)); }

EXPORT int dup2(int fd, int to) { return copied(fd, REAL(dup2)(fd, to)); }

EXPORT int dup3(int fd, int to, int flags) { return copied(fd, REAL(dup3)(fd, to, flags)); }

static int control_file(int (*real)(int, int, ...), int fd, int cmd, void *arg)
{
	int r = real(fd, cmd, arg);
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? copied(fd, r) : r;
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	va_start(ap, cmd);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	return control_file(REAL(fcntl), fd, cmd, arg);
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	va_list ap;
	va_start(ap, cmd);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	return control_file(REAL(fcntl64), fd, cmd, arg);
}

/* Paths. */

/* A path is the one that the kernel gets instead of one that begins a file of the tree, or a directory of it. */
struct path {
	char b[PATH_MAX];
	const char *name; /* in b: the file that the program means; NULL if it is none of the tree */
};

/* A function with paths of its own has its frame only when it is called: signal handlers may have small stacks. */
#define OWN_FRAME __attribute__((noinline))

static int begins(const char *path, const char *with) { return strncmp(path, with, strlen(with)) == 0; }

/* root_size returns the size of the path of the tree with which a path begins, or 0. */
static size_t root_size(const char *path)
{
	const char *root = setting(ROOT);
	size_t n = root ? strlen(root) : 0;
	return n && !strncmp(path, root, n) && path[n] == '/' ? n : 0;
}

/*
 * Whether the working directory is in the tree: 0 not known, 1 no, 2 yes. A program that changes it otherwise than by
 * chdir and fchdir finds the files as they were when ddkrun started.
 */
static atomic_int where;

OWN_FRAME static int find_where(void)
{
	char b[PATH_MAX];
	int saved = errno;
	ssize_t n = RAW(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", b, sizeof b - 1);
	errno = saved;
	b[n > 0 ? n : 0] = 0;
	int w = root_size(b) ? 2 : 1;
	atomic_store(&where, w);
	return w;
}

static int is_in_tree(void)
{
	int w = atomic_load(&where);
	return (w ? w : find_where()) == 2;
}

/* is_word_at reports whether a name is at the beginning of a path, as one or more whole components. */
static int is_word_at(const char *path, const char *name)
{
	size_t n = strlen(name);
	return !strncmp(path, name, n) && (path[n] == '/' || !path[n]);
}

/* is_of_host reports whether a path is that of a directory below a device of the host, in which its adapters are. */
static int is_of_host(const char *path)
{
	static const char *const names[] = {"/infiniband", "/infiniband_verbs", "/infiniband_mad", "/infiniband_cm"};
	for (const char *p = path; (p = strstr(p, "/infiniband")); p++)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			if (is_word_at(p, names[i]))
				return begins(path, "/sys/");
	return 0;
}

/* The PCI functions of the tree, their driver, and the directory of all functions (package devices). */
#define DOMAIN "ddd0:"
#define DRIVER_DIR "/sys/bus/pci/drivers/ddkd"
#define BUS_DIR "/sys/bus/pci/devices"

/* is_redirected reports whether a normal path is that of a file of the tree, or of one that is hidden. */
static int is_redirected(const char *path)
{
	if (!begins(path, "/sys/"))
		return is_word_at(path, "/dev/infiniband");
	return begins(path, "/sys/class/infiniband") || is_word_at(path, "/sys/class/misc/rdma_cm") ||
	       is_word_at(path, "/sys/devices/virtual/misc/rdma_cm") || !strcmp(path, BUS_DIR) ||
	       is_word_at(path, DRIVER_DIR) ||
	       strstr(path, "/" DOMAIN) || strstr(path, "/pci" DOMAIN) || is_of_host(path);
}

/* has_word reports whether a path may be one of the tree: the paths of all its files have one of these words. */
static int has_word(const char *path)
{
	return strstr(path, "infiniband") || strstr(path, "rdma_cm") || strstr(path, DOMAIN) ||
	       strstr(path, "pci/devices") || strstr(path, "pci/drivers/ddkd");
}

/*
 * directory stores the path of a directory, with that of the tree in front of it, whose size is skip. It returns the size
 * without a slash at the end, or 0. *is_tree is set if the directory is in the tree.
 */
static size_t directory(int dir, char *b, size_t skip, int *is_tree)
{
	char link[sizeof "/proc/self/fd/" + 3 * sizeof dir] = "/proc/self/cwd";
	int saved = errno;
	if (dir != AT_FDCWD)
		snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	ssize_t n = RAW(SYS_readlinkat, AT_FDCWD, link, b, PATH_MAX - 1 - skip);
	errno = saved;
	if (n <= 0 || b[0] != '/')
		return 0;
	b[n] = 0;
	*is_tree = root_size(b) > 0;
	if (!*is_tree) {
		memmove(b + skip, b, n + 1);
		memcpy(b, setting(ROOT), skip);
		n += skip;
	}
	return n - (b[n - 1] == '/');
}

enum { MOST_LINKS = 40 }; /* as in Linux */

/*
 * place returns the path for the kernel of one that may be that of the tree, or the path itself. It resolves the path as
 * the kernel would: a link of the tree is followed, unless it is the last component and follow is 0. Links of the machine
 * are left to the kernel, except for those of sysfs before "..".
 */
OWN_FRAME static const char *place(int dir, const char *path, int follow, struct path *to)
{
	char rest[PATH_MAX];
	const char *root = setting(ROOT), *p = path;
	size_t skip = root ? strlen(root) : 0, n = skip, size;
	int is_tree = 0, is_dir = 0, links = 0;
	if (!root || (path[0] != '/' && !(n = directory(dir, to->b, skip, &is_tree))))
		return path;
	if (path[0] == '/')
		memcpy(to->b, root, skip);
	for (; *p; p += size + (p[size] == '/')) {
		size = strcspn(p, "/");
		int is_up = size == 2 && p[0] == '.' && p[1] == '.', is_here = size == 0 || (size == 1 && p[0] == '.');
		is_dir = is_up || is_here || p[size] == '/';
		if (is_up)
			while (n > skip && to->b[--n] != '/')
				;
		if (is_up || is_here)
			continue;
		if (n + 1 + size + 1 >= PATH_MAX)
			return path;
		size_t before = n;
		to->b[n++] = '/';
		memcpy(to->b + n, p, size);
		n += size;
		to->b[n] = 0;
		const char *file = to->b;
		if (is_redirected(to->b + skip))
			is_tree = 1;
		else if (begins(to->b + skip, "/sys/") && strstr(p + size, "/.."))
			file += skip;
		else
			continue;
		size_t left = strlen(p + size);
		if (!left && !follow)
			continue;
		int saved = errno;
		memmove(rest + sizeof rest - 1 - left, p + size, left + 1);
		ssize_t length = RAW(SYS_readlinkat, AT_FDCWD, file, rest, sizeof rest - 1 - left);
		errno = saved;
		if (length <= 0) {
			p = rest + sizeof rest - 1 - left;
			size = 0;
			continue;
		}
		if (++links > MOST_LINKS)
			return path;
		memmove(rest + length, rest + sizeof rest - 1 - left, left + 1);
		n = rest[0] == '/' ? skip : before;
		p = rest;
		size = 0;
	}
	to->b[n] = 0;
	int is_ours = is_redirected(to->b + skip);
	if (!is_tree)
		return path;
	if (is_dir || n == skip)
		strcpy(to->b + n, "/");
	if (is_ours)
		to->name = to->b + skip;
	else
		memmove(to->b, to->b + skip, n + 2 - skip);
	return to->b;
}

/* redirect_at returns the path of a file of the tree, or the path itself. follow is 0 if the path may be that of a link. */
static const char *redirect_at(int dir, const char *path, int follow, struct path *to)
{
	to->name = NULL;
	if (!path || !path[0] || !(has_word(path) || (path[0] != '/' && (dir != AT_FDCWD || is_in_tree()))))
		return path;
	return place(dir, path, follow, to);
}

static const char *redirect(const char *path, struct path *to) { return redirect_at(AT_FDCWD, path, 1, to); }

/* redirect_link is redirect for a path that may be that of a link. */
static const char *redirect_link(const char *path, struct path *to) { return redirect_at(AT_FDCWD, path, 0, to); }

static int is_device(const char *path) { return path && begins(path, "/dev/infiniband/"); }

/* numbers returns the device numbers in a file of the tree, or 0. */
static dev_t numbers(const char *file)
{
	char b[32] = {0};
	unsigned major, minor;
	int fd = RAW(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	ssize_t n = RAW(SYS_read, fd, b, sizeof b - 1);
	raw_close(fd);
	if (n <= 0 || sscanf(b, "%u:%u", &major, &minor) != 2)
		return 0;
	return makedev(major, minor);
}

/* report_fault prints what a program with this library may try that SIGSEGV ends. It is ended when the handler returns. */
static void report_fault(int number, siginfo_t *info, void *context)
{
	static const char text[] = "ddkrun: SIGSEGV ends the program, which has the carrier preload (without it: ddkrun "
				   "--carrier seccomp; with less of it: --share-memory=never)\n";
	const struct sigaction end = {.sa_handler = SIG_DFL};
	RAW(SYS_write, STDERR_FILENO, text, sizeof text - 1);
	sigaction(number, &end, NULL);
	if (info->si_code <= 0) /* another process has sent it, and the program does not cause it again */
		RAW(SYS_tgkill, own_pid(), RAW(SYS_gettid), number);
	(void)context;
}

/* watch_faults sets the handler of SIGSEGV, unless the program has one. It is called when a device is opened. */
static void watch_faults(void)
{
	static atomic_flag is_set = ATOMIC_FLAG_INIT;
	const struct sigaction report = {.sa_sigaction = report_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sigaction old;
	if (!atomic_flag_test_and_set(&is_set) && sigaction(SIGSEGV, NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) &&
	    old.sa_handler == SIG_DFL)
		sigaction(SIGSEGV, &report, NULL);
}

/* open_device connects to the daemon and opens a device file. */
static int open_device(const char *path, int flags)
{
	watch_faults();
	const char *socket_path = setting(SOCKET_PATH);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (!socket_path || strlen(socket_path) >= sizeof a.sun_path) {
		errno = ENOENT;
		return -1;
	}
	strcpy(a.sun_path, socket_path);
	int type = SOCK_SEQPACKET | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0);
	int fd = RAW(SYS_socket, AF_UNIX, type, 0);
	if (fd < 0)
		return -1;
	struct device *d = NULL;
	char *b = NULL;
	int failed = EIO;
	struct stat st;
	while (RAW(SYS_connect, fd, &a, sizeof a) < 0)
		if (errno != EINTR) {
			failed = ENXIO;
			goto fail;
		}
	failed = ENOMEM;
	if (!(b = take_buffer()) || !(d = new_device()))
		goto fail;
	if (raw_fstat(fd, &st))
		goto fail;
	struct request q = {.op = OP_OPEN, .a = st.st_ino};
	struct piece name = {path, strlen(path)};
	if (call(fd, NULL, &q, &name, 1, -1, b, NULL)) {
		failed = errno;
		goto fail;
	}
	failed = EIO;
	struct opened *o = (struct opened *)(b + sizeof(struct reply) + sizeof(struct store));
	if (((struct reply *)b)->stores != 1 || o->version != VERSION)
		goto fail;
	RAW(SYS_prctl, PR_SET_PTRACER, o->pid); /* so that the daemon may copy; fails without Yama */
	d->sock_dev = st.st_dev;
	d->sock_ino = st.st_ino;
	d->rdev = makedev(o->major, o->minor);
	failed = ENOMEM;
	if (enter(fd, d))
		goto fail;
	return_buffer(b);
	if (flags & O_NONBLOCK)
		RAW(SYS_fcntl, fd, F_SETFL, O_NONBLOCK);
	return fd;
fail:
	raw_close(fd);
	if (d)
		recycle(d);
	return_buffer(b);
	errno = failed;
	return -1;
}

/* is_live reports whether an open of a path that was redirected reads a file whose content changes. */
static int is_live(const char *path, int flags)
{
	return begins(path, "/sys/") && (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_DIRECTORY | O_PATH));
}

/* The name of a memfd that is an open file of the tree, which its path follows. Linux limits it to 249 bytes. */
#define LIVE_NAME "ddkrun:"
enum { MAX_LIVE_NAME = 250 };

/*
 * open_live opens a file of the tree with the content that the daemon has now. It returns -1 with the errno of the
 * daemon, or -2 if the daemon cannot be asked, or if the path is a directory.
 */
static int open_live(const char *path, int flags)
{
	const char *socket_path = setting(SOCKET_PATH);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (!socket_path || strlen(socket_path) >= sizeof a.sun_path)
		return -2;
	strcpy(a.sun_path, socket_path);
	int saved = errno, result = -2, to = -1;
	int fd = RAW(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char *b = take_buffer();
	if (fd < 0 || !b || RAW(SYS_connect, fd, &a, sizeof a) < 0)
		goto end;
	struct request q = {.op = OP_CONTENT};
	struct piece name = {path, strlen(path)};
	if (call(fd, NULL, &q, &name, 1, -1, b, NULL)) {
		if (errno == ENOENT) {
			saved = ENOENT;
			result = -1;
		}
		goto end;
	}
	struct store *s = (struct store *)(b + sizeof(struct reply));
	if (((struct reply *)b)->stores != 1)
		goto end;
	char live_name[MAX_LIVE_NAME];
	snprintf(live_name, sizeof live_name, LIVE_NAME "%s", path);
	to = RAW(SYS_memfd_create, live_name, flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	if (to < 0 || RAW(SYS_pwrite64, to, s + 1, s->size, 0) != (ssize_t)s->size)
		goto end;
	RAW(SYS_fchmod, to, 0444);
	char name_of[sizeof "/proc/self/fd/" + 3 * sizeof to];
	snprintf(name_of, sizeof name_of, "/proc/self/fd/%d", to);
	result = RAW(SYS_openat, AT_FDCWD, name_of, O_RDONLY | (flags & O_CLOEXEC), 0); /* not to be written */
	if (result < 0) { /* there is no /proc */
		result = to;
		to = -1;
	}
end:
	if (to >= 0)
		raw_close(to);
	if (fd >= 0)
		raw_close(fd);
	return_buffer(b);
	errno = saved;
	return result;
}

/* Sockets of RDMA netlink: package internal/kproxy/nldev. The library sets and checks addresses, which the connection lacks. */

enum { PROTOCOL_RDMA = 20 };

EXPORT int socket(int domain, int type, int protocol)
{
	if (domain != AF_NETLINK || protocol != PROTOCOL_RDMA)
		return REAL(socket)(domain, type, protocol);
	int flags = (type & SOCK_CLOEXEC ? O_CLOEXEC : 0) | (type & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	int fd = open_device("netlink/rdma", flags);
	struct device *d = device_at(fd);
	if (!d) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	d->port = own_pid();
	d->is_netlink = 1;
	return fd;
}

/* netlink returns the device of a descriptor, if it is a netlink socket. */
static struct device *netlink(int fd)
{
	struct device *d = device_at(fd);
	return d && d->is_netlink ? lookup(fd) : NULL;
}

/* set_address stores the address of a port, 0 for that of the kernel. */
static socklen_t set_address(void *to, socklen_t room, uint32_t port)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_pid = port};
	memcpy(to, &a, room < sizeof a ? room : sizeof a);
	return sizeof a;
}

EXPORT int bind(int fd, const struct sockaddr *a, socklen_t size)
{
	struct device *d = netlink(fd);
	if (!d)
		return file(fd) ? fail(ENOTSOCK) : REAL(bind)(fd, a, size);
	if (!a || size < sizeof(struct sockaddr_nl) || a->sa_family != AF_NETLINK) {
		errno = EINVAL;
		return -1;
	}
	uint32_t port = ((const struct sockaddr_nl *)a)->nl_pid;
	if (port)
		d->port = port;
	return 0;
}

EXPORT int connect(int fd, const struct sockaddr *a, socklen_t size)
{
	if (file(fd))
		return fail(ENOTSOCK);
	return netlink(fd) ? 0 : REAL(connect)(fd, a, size);
}

EXPORT int getsockname(int fd, struct sockaddr *a, socklen_t *size)
{
	struct device *d = netlink(fd);
	if (!d)
		return file(fd) ? fail(ENOTSOCK) : REAL(getsockname)(fd, a, size);
	*size = set_address(a, *size, d->port);
	return 0;
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	if (level == SOL_NETLINK && netlink(fd))
		return 0;
	return file(fd) ? fail(ENOTSOCK) : REAL(setsockopt)(fd, level, name, value, size);
}

EXPORT ssize_t sendto(int fd, const void *b, size_t n, int flags, const struct sockaddr *to, socklen_t size)
{
	if (netlink(fd))
		return REAL(sendto)(fd, b, n, flags | MSG_NOSIGNAL, NULL, 0);
	return file(fd) ? fail(ENOTSOCK) : REAL(sendto)(fd, b, n, flags, to, size);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (!netlink(fd))
		return file(fd) ? fail(ENOTSOCK) : REAL(sendmsg)(fd, m, flags);
	struct msghdr plain = {.msg_iov = m->msg_iov, .msg_iovlen = m->msg_iovlen};
	return REAL(sendmsg)(fd, &plain, flags | MSG_NOSIGNAL);
}

#define RECEIVED(call)                                                                                                 \
	if (file(fd))                                                                                                  \
		return fail(ENOTSOCK);                                                                                 \
	ssize_t r = call;                                                                                              \
	if (r >= 0 && from && size && netlink(fd))                                                                     \
		*size = set_address(from, *size, 0);                                                                   \
	return r

EXPORT ssize_t recvfrom(int fd, void *b, size_t n, int flags, struct sockaddr *from, socklen_t *size)
{
	RECEIVED(REAL(recvfrom)(fd, b, n, flags, from, size));
}

EXPORT ssize_t __recvfrom_chk(int fd, void *b, size_t n, size_t room, int flags, struct sockaddr *from, socklen_t *size);
EXPORT ssize_t __recvfrom_chk(int fd, void *b, size_t n, size_t room, int flags, struct sockaddr *from, socklen_t *size)
{
	RECEIVED(REAL(__recvfrom_chk)(fd, b, n, room, flags, from, size));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (file(fd))
		return fail(ENOTSOCK);
	socklen_t room = m ? m->msg_namelen : 0;
	ssize_t r = REAL(recvmsg)(fd, m, flags);
	if (r >= 0 && m->msg_name && netlink(fd))
		m->msg_namelen = set_address(m->msg_name, room, 0);
	return r;
}

EXPORT int chdir(const char *path)
{
	struct path to;
	int r = REAL(chdir)(redirect(path, &to));
	if (r == 0)
		atomic_store(&where, 0);
	return r;
}

EXPORT int fchdir(int fd)
{
	int r = REAL(fchdir)(fd);
	if (r == 0)
		atomic_store(&where, 0);
	return r;
}

/* shown removes the root of the tree from the path of the working directory. */
static char *shown(char *path)
{
	if (path && is_in_tree()) {
		size_t n = root_size(path);
		memmove(path, path + n, strlen(path + n) + 1);
	}
	return path;
}

EXPORT char *getcwd(char *b, size_t size) { return shown(REAL(getcwd)(b, size)); }

EXPORT char *__getcwd_chk(char *b, size_t size, size_t room);
EXPORT char *__getcwd_chk(char *b, size_t size, size_t room) { return shown(REAL(__getcwd_chk)(b, size, room)); }

/*
 * refuse returns -1 with the errno of an open for writing: the files of the tree cannot be written, and others cannot
 * be created, as in sysfs. All programs of the user share the tree.
 */
static int refuse(const char *path, int flags)
{
	struct stat st;
	if (RAW(SYS_newfstatat, AT_FDCWD, path, &st, 0) == 0)
		return fail(EACCES);
	return fail(errno == ENOTDIR ? ENOTDIR : flags & O_CREAT ? EACCES : ENOENT);
}

/*
 * opened opens a path if it is one of the tree. *fd is then the result, and otherwise NOT_OPENED: the next function opens
 * the path that is returned.
 */
enum { NOT_OPENED = -3 };

static const char *opened(int dir, const char *path, int flags, struct path *to, int *fd)
{
	const char *p = redirect_at(dir, path, !(flags & O_NOFOLLOW), to), *name = to->name;
	*fd = name ? -2 : NOT_OPENED;
	if (!name)
		return p;
	if (is_device(name) && !(flags & O_PATH) && numbers(to->b)) {
		if (flags & O_CREAT && flags & O_EXCL)
			*fd = fail(EEXIST);
		else
			*fd = flags & O_DIRECTORY ? fail(ENOTDIR) : open_device(name, flags);
	} else if ((flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH)) {
		*fd = refuse(to->b, flags);
	} else if (is_live(name, flags)) {
		*fd = open_live(name, flags);
	}
	if (*fd == -2)
		*fd = RAW(SYS_openat, AT_FDCWD, to->b, flags & ~(O_CREAT | O_EXCL | O_TRUNC));
	return p;
}

/* The mode of a function with variable arguments. */
#define MODE_OF(flags)                                                                                                 \
	mode_t mode = 0;                                                                                               \
	if (flags & (O_CREAT | O_TMPFILE)) {                                                                           \
		va_list ap;                                                                                            \
		va_start(ap, flags);                                                                                   \
		mode = va_arg(ap, mode_t);                                                                             \
		va_end(ap);                                                                                            \
	}

/* OPENED returns what opened does, or the result of a call, whose path is p. */
#define OPENED(dir, flags, call)                                                                                       \
	struct path to;                                                                                                \
	int fd;                                                                                                        \
	const char *p = opened(dir, path, flags, &to, &fd);                                                            \
	return fd == NOT_OPENED ? call : fd

EXPORT int open(const char *path, int flags, ...)
{
	MODE_OF(flags)
	OPENED(AT_FDCWD, flags, REAL(open)(p, flags, mode));
}

EXPORT int open64(const char *path, int flags, ...)
{
	MODE_OF(flags)
	OPENED(AT_FDCWD, flags, REAL(open64)(p, flags, mode));
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	MODE_OF(flags)
	OPENED(dir, flags, REAL(openat)(dir, p, flags, mode));
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	MODE_OF(flags)
	OPENED(dir, flags, REAL(openat64)(dir, p, flags, mode));
}

EXPORT int __open_2(const char *path, int flags) { OPENED(AT_FDCWD, flags, REAL(__open_2)(p, flags)); }
EXPORT int __open64_2(const char *path, int flags) { OPENED(AT_FDCWD, flags, REAL(__open64_2)(p, flags)); }
EXPORT int __openat_2(int dir, const char *path, int flags) { OPENED(dir, flags, REAL(__openat_2)(dir, p, flags)); }
EXPORT int __openat64_2(int dir, const char *path, int flags) { OPENED(dir, flags, REAL(__openat64_2)(dir, p, flags)); }

enum { CREAT_FLAGS = O_CREAT | O_WRONLY | O_TRUNC };
EXPORT int creat(const char *path, mode_t mode) { OPENED(AT_FDCWD, CREAT_FLAGS, REAL(creat)(p, mode)); }
EXPORT int creat64(const char *path, mode_t mode) { OPENED(AT_FDCWD, CREAT_FLAGS, REAL(creat64)(p, mode)); }

static int open_raw(int dir, const char *path, int flags, mode_t mode)
{
	OPENED(dir, flags, RAW(SYS_openat, dir, p, flags, mode));
}

/*
 * stream_path returns the path that the functions of the C library open for a stream, or NULL with errno. *live is the
 * descriptor of a file with the content of now, which the path then is, or -1.
 */
static const char *stream_path(const char *path, const char *mode, struct path *to, int *live)
{
	const char *p = redirect(path, to);
	*live = -1;
	if (!to->name || is_device(to->name))
		return p;
	if (mode[0] != 'r' || strchr(mode, '+')) {
		refuse(p, mode[0] == 'r' ? 0 : O_CREAT);
		return NULL;
	}
	int fd = is_live(to->name, O_RDONLY) ? open_live(to->name, O_CLOEXEC) : -2;
	if (fd == -2)
		return p;
	if (fd < 0)
		return NULL;
	*live = fd;
	snprintf(to->b, sizeof to->b, "/proc/self/fd/%d", fd);
	return to->b;
}

static FILE *open_stream(FILE *(*real)(const char *, const char *), const char *path, const char *mode)
{
	struct path to;
	int live;
	const char *p = stream_path(path, mode, &to, &live);
	if (!p)
		return NULL;
	FILE *f = real(p, mode);
	if (live >= 0)
		raw_close(live);
	return f;
}

static FILE *reopen_stream(FILE *(*real)(const char *, const char *, FILE *), const char *path, const char *mode,
			   FILE *f)
{
	struct path to;
	int live = -1;
	const char *p = path ? stream_path(path, mode, &to, &live) : NULL;
	if (path && !p) {
		int saved = errno;
		fclose(f); /* as if the open had failed */
		errno = saved;
		return NULL;
	}
	f = real(p, mode, f);
	if (live >= 0)
		raw_close(live);
	return f;
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *f) { return reopen_stream(REAL(freopen), path, mode, f); }

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *f)
{
	return reopen_stream(REAL(freopen64), path, mode, f);
}

EXPORT FILE *fopen(const char *path, const char *mode) { return open_stream(REAL(fopen), path, mode); }

EXPORT FILE *fopen64(const char *path, const char *mode) { return open_stream(REAL(fopen64), path, mode); }

static DIR *open_directory(const char *path)
{
	struct path to;
	return REAL(opendir)(redirect(path, &to));
}

EXPORT DIR *opendir(const char *path) { return open_directory(path); }

EXPORT int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	struct path to;
	return REAL(scandir)(redirect(path, &to), list, filter, compare);
}

EXPORT int scandir64(const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
		     int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	struct path to;
	return REAL(scandir64)(redirect(path, &to), list, filter, compare);
}

/*
 * Everybody may read and write devices. The files of the tree are the user's own, who must not write to them. ACCESS
 * returns the result for a device, or that of a call, whose path is p.
 */
#define ACCESS(dir, call)                                                                                              \
	struct path to;                                                                                                \
	const char *p = redirect_at(dir, path, 1, &to), *name = to.name;                                               \
	int is_ours = name && is_device(name) && numbers(to.b);                                                        \
	return !is_ours ? call : mode & X_OK ? fail(EACCES) : 0

EXPORT int access(const char *path, int mode) { ACCESS(AT_FDCWD, REAL(access)(p, mode)); }
EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	ACCESS(dir, REAL(faccessat)(dir, p, mode, flags));
}
EXPORT int euidaccess(const char *path, int mode) { ACCESS(AT_FDCWD, REAL(euidaccess)(p, mode)); }
EXPORT int eaccess(const char *path, int mode) { ACCESS(AT_FDCWD, REAL(eaccess)(p, mode)); }
static int access_raw(int dir, const char *path, int mode) { ACCESS(dir, RAW(SYS_faccessat, dir, p, mode)); }

EXPORT ssize_t readlink(const char *path, char *b, size_t size)
{
	struct path to;
	return REAL(readlink)(redirect_link(path, &to), b, size);
}

EXPORT ssize_t readlinkat(int dir, const char *path, char *b, size_t size)
{
	struct path to;
	return REAL(readlinkat)(dir, redirect_at(dir, path, 0, &to), b, size);
}

EXPORT ssize_t __readlink_chk(const char *path, char *b, size_t size, size_t room);
EXPORT ssize_t __readlink_chk(const char *path, char *b, size_t size, size_t room)
{
	struct path to;
	return REAL(__readlink_chk)(redirect_link(path, &to), b, size, room);
}

EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *b, size_t size, size_t room);
EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *b, size_t size, size_t room)
{
	struct path to;
	return REAL(__readlinkat_chk)(dir, redirect_at(dir, path, 0, &to), b, size, room);
}

EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	struct path to;
	return REAL(getxattr)(redirect(path, &to), name, value, size);
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	struct path to;
	return REAL(lgetxattr)(redirect_link(path, &to), name, value, size);
}

EXPORT ssize_t listxattr(const char *path, char *list, size_t size)
{
	struct path to;
	return REAL(listxattr)(redirect(path, &to), list, size);
}

EXPORT ssize_t llistxattr(const char *path, char *list, size_t size)
{
	struct path to;
	return REAL(llistxattr)(redirect_link(path, &to), list, size);
}

EXPORT int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	struct path to;
	return REAL(inotify_add_watch)(fd, redirect(path, &to), mask);
}

_Static_assert(sizeof(struct statfs) == sizeof(struct statfs64), "the two structures are one");

static int set_file_system(int r, const struct path *to, struct statfs *st)
{
	if (r == 0 && to->name && begins(to->name, "/sys/"))
		st->f_type = SYSFS_MAGIC;
	return r;
}

EXPORT int statfs(const char *path, struct statfs *st)
{
	struct path to;
	const char *p = redirect(path, &to);
	return set_file_system(REAL(statfs)(p, st), &to, st);
}

EXPORT int statfs64(const char *path, struct statfs64 *st)
{
	struct path to;
	const char *p = redirect(path, &to);
	return set_file_system(REAL(statfs64)(p, st), &to, (struct statfs *)st);
}

/* set_descriptor_system is set_file_system for a descriptor. */
OWN_FRAME static int set_descriptor_system(int r, int fd, struct statfs *st)
{
	static const char live[] = "/memfd:" LIVE_NAME "/sys/";
	char link[sizeof "/proc/self/fd/" + 3 * sizeof fd], name[PATH_MAX];
	int saved = errno;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = r == 0 ? RAW(SYS_readlinkat, AT_FDCWD, link, name, sizeof name - 1) : 0;
	errno = saved;
	name[n > 0 ? n : 0] = 0;
	if (begins(name, live) || (root_size(name) && begins(name + root_size(name), "/sys/")))
		st->f_type = SYSFS_MAGIC;
	return r;
}

EXPORT int fstatfs(int fd, struct statfs *st) { return set_descriptor_system(REAL(fstatfs)(fd, st), fd, st); }

EXPORT int fstatfs64(int fd, struct statfs64 *st)
{
	return set_descriptor_system(REAL(fstatfs64)(fd, st), fd, (struct statfs *)st);
}

EXPORT int statvfs(const char *path, struct statvfs *st)
{
	struct path to;
	return REAL(statvfs)(redirect(path, &to), st);
}

EXPORT int statvfs64(const char *path, struct statvfs64 *st)
{
	struct path to;
	return REAL(statvfs64)(redirect(path, &to), st);
}

/* strip takes the path of the tree off a path in b. */
static char *strip(char *b)
{
	size_t n = b ? root_size(b) : 0;
	if (n)
		memmove(b, b + n, strlen(b + n) + 1);
	return b;
}

EXPORT char *realpath(const char *path, char *b)
{
	struct path to;
	return strip(REAL(realpath)(redirect(path, &to), b));
}

EXPORT char *__realpath_chk(const char *path, char *b, size_t room);
EXPORT char *__realpath_chk(const char *path, char *b, size_t room)
{
	struct path to;
	return strip(REAL(__realpath_chk)(redirect(path, &to), b, room));
}

EXPORT char *canonicalize_file_name(const char *path)
{
	struct path to;
	return strip(REAL(canonicalize_file_name)(redirect(path, &to)));
}

/* Status. */

static void make_device(struct stat *st, dev_t rdev)
{
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = rdev;
	st->st_size = 0;
}

/* The status of a file in sysfs, which has the size of a page. */
enum { SYSFS_MODE = S_IFREG | 0444, SYSFS_SIZE = 4096 };

/* set_status sets the status of a regular file of the tree, whose path is in to, to that of the file with a name. */
static void set_status(struct stat *st, const char *name, const struct path *to)
{
	dev_t n;
	if (!S_ISREG(st->st_mode))
		return;
	if (is_device(name) && (n = numbers(to->b))) {
		make_device(st, n);
	} else if (begins(name, "/sys/")) {
		st->st_mode = SYSFS_MODE;
		st->st_size = SYSFS_SIZE;
	}
}

/* set_path_status sets the status of a path, which a call with the result r has stored, and returns r. */
static int set_path_status(int r, const struct path *to, struct stat *st)
{
	if (r == 0 && to->name)
		set_status(st, to->name, to);
	return r;
}

static int stat_raw(int dir, const char *path, struct stat *st, int flags)
{
	struct path to;
	const char *p = redirect_at(dir, path, !(flags & AT_SYMLINK_NOFOLLOW), &to);
	return set_path_status(RAW(SYS_newfstatat, dir, p, st, flags), &to, st);
}

/* set_live sets the status of an open file to that of the file of the tree that it is, if its descriptor is a memfd. */
OWN_FRAME static void set_live(int fd, struct stat *st)
{
	static const char begin[] = "/memfd:" LIVE_NAME, end[] = " (deleted)";
	char link[sizeof "/proc/self/fd/" + 3 * sizeof fd], name[PATH_MAX];
	struct stat of;
	struct path to;
	int saved = errno;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = RAW(SYS_readlinkat, AT_FDCWD, link, name, sizeof name - 1), size = n - (ssize_t)(sizeof end - 1);
	if (size > 0 && begins(name, begin)) {
		name[size] = 0;
		const char *p = redirect(name + sizeof begin - 1, &to);
		if (to.name && RAW(SYS_newfstatat, AT_FDCWD, p, &of, 0) == 0) {
			*st = of;
			set_status(st, to.name, &to);
		}
	}
	errno = saved;
}

/* set_file_status is set_path_status for a descriptor. */
static int set_file_status(int r, int fd, struct stat *st)
{
	struct device *d;
	if (r == 0 && device_at(fd) && (d = lookup(fd)))
		make_device(st, d->rdev);
	else if (r == 0 && S_ISREG(st->st_mode) && st->st_nlink == 0)
		set_live(fd, st);
	return r;
}

/* open_how opens a path with the flags of openat2. Calls with rules of resolution are the kernel's. */
static int open_how(int dir, const char *path, const uint64_t *how, size_t size)
{
	uint64_t h[3]; /* flags, mode, resolve */
	struct iovec from = {(void *)how, sizeof h}, to = {h, sizeof h};
	if (size != sizeof h || RAW(SYS_process_vm_readv, own_pid(), &to, 1, &from, 1, 0) != sizeof h || h[2] || h[0] >> 31)
		return RAW(SYS_openat2, dir, path, how, size);
	return open_raw(dir, path, h[0], h[1]);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "the two structures are one");

/* STAT returns the result of a call on a path, which is p, and FSTAT that of one on a descriptor. */
#define STAT(dir, flags, call)                                                                                         \
	struct path to;                                                                                                \
	const char *p = redirect_at(dir, path, !((flags) & AT_SYMLINK_NOFOLLOW), &to);                                 \
	return set_path_status(call, &to, (struct stat *)st)
#define FSTAT(fd, call) return set_file_status(call, fd, (struct stat *)st)

EXPORT int stat(const char *path, struct stat *st) { STAT(AT_FDCWD, 0, REAL(stat)(p, st)); }
EXPORT int stat64(const char *path, struct stat64 *st) { STAT(AT_FDCWD, 0, REAL(stat64)(p, st)); }
EXPORT int lstat(const char *path, struct stat *st) { STAT(AT_FDCWD, AT_SYMLINK_NOFOLLOW, REAL(lstat)(p, st)); }
EXPORT int lstat64(const char *path, struct stat64 *st) { STAT(AT_FDCWD, AT_SYMLINK_NOFOLLOW, REAL(lstat64)(p, st)); }
EXPORT int fstat(int fd, struct stat *st) { FSTAT(fd, REAL(fstat)(fd, st)); }
EXPORT int fstat64(int fd, struct stat64 *st) { FSTAT(fd, REAL(fstat64)(fd, st)); }

static int is_descriptor(int dir, const char *path, int flags)
{
	return flags & AT_EMPTY_PATH && path && !*path && device_at(dir);
}

#define FSTATAT(call_empty, call)                                                                                      \
	if (is_descriptor(dir, path, flags))                                                                           \
		FSTAT(dir, call_empty);                                                                                \
	STAT(dir, flags, call)

EXPORT int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	FSTATAT(REAL(fstatat)(dir, path, st, flags), REAL(fstatat)(dir, p, st, flags));
}

EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	FSTATAT(REAL(fstatat64)(dir, path, st, flags), REAL(fstatat64)(dir, p, st, flags));
}

/* The names of programs that were built with a C library older than 2.33. */
EXPORT int __xstat(int v, const char *path, struct stat *st) { STAT(AT_FDCWD, 0, REAL(__xstat)(v, p, st)); }
EXPORT int __xstat64(int v, const char *path, struct stat64 *st) { STAT(AT_FDCWD, 0, REAL(__xstat64)(v, p, st)); }
EXPORT int __lxstat(int v, const char *path, struct stat *st)
{
	STAT(AT_FDCWD, AT_SYMLINK_NOFOLLOW, REAL(__lxstat)(v, p, st));
}
EXPORT int __lxstat64(int v, const char *path, struct stat64 *st)
{
	STAT(AT_FDCWD, AT_SYMLINK_NOFOLLOW, REAL(__lxstat64)(v, p, st));
}
EXPORT int __fxstat(int v, int fd, struct stat *st) { FSTAT(fd, REAL(__fxstat)(v, fd, st)); }
EXPORT int __fxstat64(int v, int fd, struct stat64 *st) { FSTAT(fd, REAL(__fxstat64)(v, fd, st)); }
EXPORT int __fxstatat(int v, int dir, const char *path, struct stat *st, int flags)
{
	FSTATAT(REAL(__fxstatat)(v, dir, path, st, flags), REAL(__fxstatat)(v, dir, p, st, flags));
}
EXPORT int __fxstatat64(int v, int dir, const char *path, struct stat64 *st, int flags)
{
	FSTATAT(REAL(__fxstatat64)(v, dir, path, st, flags), REAL(__fxstatat64)(v, dir, p, st, flags));
}

/* set_statx is set_path_status for statx, with the path of the program. */
static int set_statx(int r, int dir, const char *path, const struct path *to, int flags, struct statx *st)
{
	int is_file = flags & AT_EMPTY_PATH && path && !*path;
	struct stat s;
	if (r || (!S_ISREG(st->stx_mode) && !S_ISSOCK(st->stx_mode)) || (!is_file && !to->name) ||
	    (is_file ? set_file_status(raw_fstat(dir, &s), dir, &s) : stat_raw(dir, path, &s, flags & AT_SYMLINK_NOFOLLOW)))
		return r;
	st->stx_mode = s.st_mode;
	st->stx_rdev_major = major(s.st_rdev);
	st->stx_rdev_minor = minor(s.st_rdev);
	st->stx_dev_major = major(s.st_dev);
	st->stx_dev_minor = minor(s.st_dev);
	st->stx_ino = s.st_ino;
	st->stx_nlink = s.st_nlink;
	st->stx_size = s.st_size;
	return r;
}

EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
	struct path to;
	const char *p = redirect_at(dir, path, !(flags & AT_SYMLINK_NOFOLLOW), &to);
	return set_statx(REAL(statx)(dir, p, flags, mask, st), dir, path, &to, flags, st);
}

/* path_call executes a system call with a path. *known is 0 if there is none. */
static long path_call(long number, const long *a, int *known)
{
	struct path to;
	const char *p;
	*known = 1;
	switch (number) {
#ifdef SYS_open
	case SYS_open:
		return open_raw(AT_FDCWD, (const char *)a[0], a[1], a[2]);
	case SYS_access:
		return access_raw(AT_FDCWD, (const char *)a[0], a[1]);
	case SYS_stat:
		return stat_raw(AT_FDCWD, (const char *)a[0], (struct stat *)a[1], 0);
	case SYS_lstat:
		return stat_raw(AT_FDCWD, (const char *)a[0], (struct stat *)a[1], AT_SYMLINK_NOFOLLOW);
	case SYS_readlink:
		return RAW(SYS_readlink, redirect_link((const char *)a[0], &to), a[1], a[2]);
#endif
	case SYS_faccessat:
		return access_raw(a[0], (const char *)a[1], a[2]);
	case SYS_newfstatat:
		if (is_descriptor(a[0], (const char *)a[1], a[3]))
			return set_file_status(raw_fstat(a[0], (struct stat *)a[2]), a[0], (struct stat *)a[2]);
		return stat_raw(a[0], (const char *)a[1], (struct stat *)a[2], a[3]);
	case SYS_statx:
		p = redirect_at(a[0], (const char *)a[1], !(a[2] & AT_SYMLINK_NOFOLLOW), &to);
		return set_statx(RAW(SYS_statx, a[0], p, a[2], a[3], a[4]), a[0], (const char *)a[1], &to, a[2],
				 (struct statx *)a[4]);
	case SYS_readlinkat:
		return RAW(SYS_readlinkat, a[0], redirect_at(a[0], (const char *)a[1], 0, &to), a[2], a[3]);
	case SYS_openat:
		return open_raw(a[0], (const char *)a[1], a[2], a[3]);
	case SYS_openat2:
		return open_how(a[0], (const char *)a[1], (const uint64_t *)a[2], a[3]);
	}
	*known = 0;
	return 0;
}

/* descriptor_call is path_call for a descriptor that is the first argument. */
static long descriptor_call(long number, const long *a, int *known)
{
	struct device *d = device_at(a[0]);
	*known = 1;
	switch (number) {
	case SYS_close:
		enter(a[0], NULL);
		return RAW(SYS_close, a[0]);
	case SYS_dup:
		return copied(a[0], RAW(SYS_dup, a[0]));
#ifdef SYS_dup2
	case SYS_dup2:
		return copied(a[0], RAW(SYS_dup2, a[0], a[1]));
#endif
	case SYS_dup3:
		return copied(a[0], RAW(SYS_dup3, a[0], a[1], a[2]));
	case SYS_fcntl:
		*known = a[1] == F_DUPFD || a[1] == F_DUPFD_CLOEXEC;
		return *known ? copied(a[0], RAW(SYS_fcntl, a[0], a[1], a[2])) : 0;
	}
	*known = d && !d->is_netlink && (d = lookup(a[0]));
	if (!*known)
		return 0;
	switch (number) {
	case SYS_read:
		return read_device(a[0], d, (void *)a[1], a[2]);
	case SYS_write:
		return is_rung(a[0], d, (void *)a[1], a[2]) ? a[2] : write_device(a[0], d, (void *)a[1], a[2]);
	case SYS_readv:
		return transfer_vector(read_device, a[0], d, (const struct iovec *)a[1], a[2]);
	case SYS_writev:
		return transfer_vector(write_device, a[0], d, (const struct iovec *)a[1], a[2]);
	case SYS_ioctl:
		if (!is_of_kernel(a[1]))
			return ioctl_device(a[0], d, a[1], (void *)a[2]);
	}
	*known = 0;
	return 0;
}

/*
 * syscall is how libraries that replace functions of the C library make their calls in the end, such as those of UCX
 * for mappings. The calls on devices and the files of the tree that have such libraries, or no function, are redirected.
 */
EXPORT long syscall(long number, ...)
{
	va_list ap;
	long a[6];
	int known = 0;
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	long result = number == SYS_mmap ? (long)map_file((void *)a[0], a[1], a[2], a[3], a[4], a[5], &known) : 0;
	if (!known)
		result = memory_call(number, a, &known);
	if (!known)
		result = path_call(number, a, &known);
	if (!known)
		result = descriptor_call(number, a, &known);
	return known ? result : RAW(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Functions of the C library that walk through directories make their calls without the functions above. */

static int stat_followed(const char *path, struct stat *st) { return stat_raw(AT_FDCWD, path, st, 0); }
static int stat_itself(const char *path, struct stat *st) { return stat_raw(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW); }

/* glob_with runs glob with our functions, which the program replaces in the same way. */
static int glob_with(int (*real)(const char *, int, int (*)(const char *, int), glob_t *), const char *pattern,
		     int flags, int (*failed)(const char *, int), glob_t *g)
{
	if (flags & GLOB_ALTDIRFUNC || !pattern ||
	    !(begins(pattern, "/sys/") || begins(pattern, "/dev/") || has_word(pattern) || is_in_tree()))
		return real(pattern, flags, failed, g);
	g->gl_opendir = (__typeof__(g->gl_opendir))(void *)open_directory;
	g->gl_readdir = (__typeof__(g->gl_readdir))(void *)readdir;
	g->gl_closedir = (__typeof__(g->gl_closedir))(void *)closedir;
	g->gl_stat = stat_followed;
	g->gl_lstat = stat_itself;
	int r = real(pattern, flags | GLOB_ALTDIRFUNC, failed, g);
	g->gl_flags &= ~GLOB_ALTDIRFUNC;
	return r;
}

EXPORT int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *g)
{
	return glob_with(REAL(glob), pattern, flags, failed, g);
}

_Static_assert(sizeof(glob_t) == sizeof(glob64_t), "the two structures are one");

EXPORT int glob64(const char *pattern, int flags, int (*failed)(const char *, int), glob64_t *g)
{
	return glob_with((__typeof__(&glob))REAL(glob64), pattern, flags, failed, (glob_t *)g);
}

/* A walk is a call of nftw or ftw for the tree, whose function gets the paths of the program. */
struct walk {
	__nftw_func_t visit;
	__ftw_func_t plain; /* of ftw */
	const char *path;   /* of the program */
	int path_size, size; /* of that path and of the one that nftw gets, without slashes at the end */
};

static __thread struct walk *walk;

static int size_without_slashes(const char *path)
{
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	return n;
}

static int visit_file(const char *file, const struct stat *st, int type, struct FTW *f)
{
	struct walk *w = walk;
	struct stat s = *st;
	struct path to;
	if (type == FTW_F && root_size(file)) {
		snprintf(to.b, sizeof to.b, "%s", file);
		set_status(&s, to.b + root_size(file), &to);
	}
	snprintf(to.b, sizeof to.b, "%.*s%s", w->path_size, w->path, file + w->size);
	if (w->plain)
		return w->plain(to.b, &s, type);
	struct FTW g = {.base = f->base + w->path_size - w->size, .level = f->level};
	return w->visit(to.b, &s, type, &g);
}

static int walk_tree(const char *path, const char *real_path, struct walk *w, int count, int flags)
{
	struct walk *outer = walk;
	w->path = path;
	w->path_size = size_without_slashes(path);
	w->size = size_without_slashes(real_path);
	walk = w;
	int r = REAL(nftw)(real_path, visit_file, count, flags);
	walk = outer;
	return r;
}

#define WALK(field, real, count, flags, ...)                                                                           \
	struct path to;                                                                                                \
	struct walk w = {.field = (__typeof__(w.field))(void *)visit};                                                 \
	const char *p = redirect_at(AT_FDCWD, path, !((flags) & FTW_PHYS), &to);                                       \
	return to.name ? walk_tree(path, p, &w, count, flags) : REAL(real)(p, visit, __VA_ARGS__)

EXPORT int nftw(const char *path, __nftw_func_t visit, int count, int flags)
{
	WALK(visit, nftw, count, flags, count, flags);
}

EXPORT int nftw64(const char *path, __nftw64_func_t visit, int count, int flags)
{
	WALK(visit, nftw64, count, flags, count, flags);
}

EXPORT int ftw(const char *path, __ftw_func_t visit, int count) { WALK(plain, ftw, count, 0, count); }
EXPORT int ftw64(const char *path, __ftw64_func_t visit, int count) { WALK(plain, ftw64, count, 0, count); }
