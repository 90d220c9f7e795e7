/*
 * Shared memory: pages that a program registers are moved to a file in memory (memfd), which the daemon maps. It then
 * needs no system call for a copy. ddkrun --share-memory chooses when: DDKRUN_SHARE_MEMORY. This file is a part of
 * preload.c.
 *
 * Moving is a copy to the file, and a mapping of the file in place of the old pages. What is written between the two
 * would be lost. Therefore memory is moved only if it is private, anonymous, consists of whole pages, is no part of a
 * stack's mapping, and is not registered in a way that the daemon writes to it by system calls, and only while the
 * process has one thread and its signals are blocked. The daemon copies other memory. Memory remains in the file after
 * it is deregistered.
 *
 * "always" moves all such memory. "auto", the default, leaves memory alone where the program could notice it:
 *
 *   AUTO_BYTES       are moved at most, since moving and fork take the time of a copy
 *   has_io           the process has a device or a queue mapped (io_uring, libaio, packet sockets, VFIO), by which the
 *                    kernel may write to pages while they are moved
 *   VmLck            the process has locked memory (mlock)
 *   specials         the program has asked for huge pages, a NUMA policy, a protection key, or no core dump or child,
 *                    or supplies the pages itself (userfaultfd)
 *   is_overcommitted the system promises memory that it may not have, so that pages of a file are no worse
 *
 * A shared mapping differs from a private one in these cases:
 *
 *   fork              areas are not inherited (MADV_DONTFORK); the child gets a private copy (before_fork)
 *   MADV_DONTNEED     does not erase a shared mapping; madvise is replaced
 *   MADV_DOFORK       is undone
 *   mremap to grow    the file has a fixed size; mremap is replaced, and adds private pages
 *
 * Calls that other processes make in the meantime are not known: process_vm_writev.
 */

enum { MAX_AREAS = 256, MAPS_BUFFER = 8192, FIRST_FD = 512, MAX_SPECIALS = 64, PAGES_AT_ONCE = 256 };
static const uint64_t AUTO_BYTES = 64ul << 20;

/* An area is a file that memory was moved to. The descriptor is valid only if it is still that file. */
static struct area {
	dev_t dev;
	ino_t ino;
	int fd;
	uint64_t start, end; /* where it was mapped first */
	int is_elsewhere;    /* parts may be mapped elsewhere */
	int seen;            /* while mappings are read */
} areas[MAX_AREAS];
static int area_count;
static atomic_int has_areas; /* so that calls of programs without areas take no lock */
static pthread_mutex_t areas_lock = PTHREAD_MUTEX_INITIALIZER;

/* block_signals blocks all signals but those of the C library, and stores the mask. */
static void block_signals(uint64_t *old)
{
	uint64_t all = ~(3ull << 31); /* 32 and 33 */
	RAW(SYS_rt_sigprocmask, SIG_SETMASK, &all, old, sizeof all);
}

static void restore_signals(const uint64_t *old) { RAW(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, sizeof *old); }

/* lock_areas blocks signals, whose handlers may fork. */
static void lock_areas(uint64_t *old)
{
	block_signals(old);
	pthread_mutex_lock(&areas_lock);
}

static void unlock_areas(const uint64_t *old)
{
	pthread_mutex_unlock(&areas_lock);
	restore_signals(old);
}

/* touches_area reports whether an area may be mapped in a range. */
static int touches_area(uint64_t start, uint64_t end)
{
	for (int i = 0; i < area_count; i++)
		if (areas[i].is_elsewhere || (areas[i].start < end && start < areas[i].end))
			return 1;
	return 0;
}

/* A mapping is a line of /proc/self/maps. */
struct mapping {
	uint64_t start, end, off;
	char rights[5];
	const char *name;
	struct area *area; /* NULL if it is none of our files */
	int is_anonymous;
};

static int rights_of_mapping(const struct mapping *m)
{
	return (m->rights[0] == 'r' ? PROT_READ : 0) | (m->rights[1] == 'w' ? PROT_WRITE : 0) |
	       (m->rights[2] == 'x' ? PROT_EXEC : 0);
}

static struct area *area_of(dev_t dev, ino_t ino)
{
	for (int i = 0; i < area_count; i++)
		if (areas[i].ino == ino && areas[i].dev == dev)
			return &areas[i];
	return NULL;
}

/* number parses a number and the character after it, and returns what follows, or NULL. It is no sscanf, because a
 * handler of signals may fork. */
static const char *number(const char *p, unsigned base, char after, uint64_t *v)
{
	*v = 0;
	for (; p && *p && *p != after; p++) {
		unsigned digit = base;
		if (*p >= '0' && *p <= '9')
			digit = *p - '0';
		else if (*p >= 'a' && *p <= 'f')
			digit = *p - 'a' + 10;
		if (digit >= base)
			return NULL;
		*v = *v * base + digit;
	}
	return p && *p ? p + 1 : NULL;
}

static int parse_mapping(const char *p, struct mapping *m)
{
	uint64_t major, minor, ino;
	memset(m, 0, sizeof *m);
	p = number(p, 16, '-', &m->start);
	p = number(p, 16, ' ', &m->end);
	if (!p || strlen(p) < sizeof m->rights)
		return -1;
	memcpy(m->rights, p, sizeof m->rights - 1);
	p = number(p + sizeof m->rights, 16, ' ', &m->off);
	p = number(p, 16, ':', &major);
	p = number(p, 16, ' ', &minor);
	p = number(p, 10, ' ', &ino);
	if (!p)
		return -1;
	m->name = p + strspn(p, " ");
	m->is_anonymous = ino == 0;
	if (ino)
		m->area = area_of(makedev(major, minor), ino);
	return 0;
}

/* each_area calls f for each area, as far as is known without the system's list. */
static int each_area(int (*f)(struct mapping *m, void *arg), void *arg)
{
	for (int i = 0; i < area_count; i++) {
		struct area *a = &areas[i];
		struct mapping m = {.start = a->start, .end = a->end, .rights = "rw-s", .name = "", .area = a};
		if (!a->is_elsewhere && f(&m, arg))
			return -1;
	}
	return 0;
}

/*
 * each_mapping calls f for each mapping of the process. It returns -1 if they cannot be read, or f has returned it. The
 * lock is held. In a program that cannot read them any more (chroot), it calls f for areas.
 */
static int each_mapping(int (*f)(struct mapping *m, void *arg), void *arg)
{
	char b[MAPS_BUFFER];
	size_t have = 0;
	int fd = RAW(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), r = -1;
	if (fd < 0)
		return each_area(f, arg);
	for (;;) {
		ssize_t n = RAW(SYS_read, fd, b + have, sizeof b - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			r = n == 0 && have == 0 ? 0 : -1;
			break;
		}
		have += n;
		b[have] = 0;
		char *line = b, *end;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			struct mapping m;
			*end = 0;
			if (parse_mapping(line, &m) || f(&m, arg))
				goto done;
		}
		have = b + have - line;
		memmove(b, line, have);
		if (have == sizeof b - 1)
			break;
	}
done:
	raw_close(fd);
	return r;
}

/* is_file reports whether a descriptor is still that of an area. */
static int is_file(struct area *a) { return is_same(a->fd, a->dev, a->ino); }

/* forget_unseen closes the files that are not mapped any more. */
static void forget_unseen(void)
{
	int kept = 0;
	for (int i = 0; i < area_count; i++)
		if (areas[i].seen)
			areas[kept++] = areas[i];
		else if (is_file(&areas[i]))
			raw_close(areas[i].fd);
	area_count = kept;
	atomic_store(&has_areas, kept);
}

/*
 * Forks. Areas are not inherited, so that no child shares pages with its parent without knowing it. Before a fork, each
 * mapping of an area is copied to private memory, a twin, which is inherited. The child moves twins to their places.
 */

struct twin {
	uint64_t start, size, copy; /* copy 0: there is no memory for it, and the child has no access */
};

static struct {
	struct twin *list;
	size_t count, room;
	uint64_t mask; /* of signals, before the fork */
} twins;

static uint64_t map_private(uint64_t size, int prot)
{
	long p = RAW(SYS_mmap, 0, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == -1 ? 0 : p;
}

/* read_area copies a mapping from its file. Pages that were never used stay so. */
static int read_area(const struct mapping *m, uint64_t copy)
{
	const uint64_t size = m->end - m->start;
	for (uint64_t at = 0; at < size;) {
		off_t data = RAW(SYS_lseek, m->area->fd, m->off + at, SEEK_DATA);
		if (data == -1 && errno == ENXIO)
			return 0;
		off_t hole = data == -1 ? -1 : RAW(SYS_lseek, m->area->fd, data, SEEK_HOLE);
		if (hole == -1)
			return -1;
		uint64_t end = (uint64_t)hole - m->off < size ? (uint64_t)hole - m->off : size;
		for (at = (uint64_t)data - m->off; at < end;) {
			ssize_t n = RAW(SYS_pread64, m->area->fd, copy + at, end - at, m->off + at);
			if (n <= 0 && errno != EINTR)
				return -1;
			at += n > 0 ? n : 0;
		}
	}
	return 0;
}

/*
 * copy_area copies a mapping whose file the program has closed, and which it may not be allowed to read: from another
 * mapping of it, which not every system makes (valgrind), or from the memory of the process (not after chroot).
 */
static int copy_area(const struct mapping *m, uint64_t copy)
{
	const uint64_t size = m->end - m->start;
	uint64_t at = 0;
	long p = RAW(SYS_mremap, m->start, 0, size, MREMAP_MAYMOVE, 0);
	if (p != -1) {
		int r = RAW(SYS_mprotect, p, size, PROT_READ);
		if (r == 0)
			memcpy((void *)(uintptr_t)copy, (void *)p, size);
		RAW(SYS_munmap, p, size);
		return r;
	}
	int fd = RAW(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
	for (ssize_t n; at < size; at += n > 0 ? n : 0) {
		n = RAW(SYS_pread64, fd, copy + at, size - at, m->start + at);
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
	}
	if (fd >= 0)
		raw_close(fd);
	return at < size ? -1 : 0;
}

static int count_twin(struct mapping *m, void *arg)
{
	(void)arg;
	twins.room += m->area != NULL;
	return 0;
}

static int make_twin(struct mapping *m, void *arg)
{
	(void)arg;
	if (!m->area || twins.count == twins.room)
		return 0;
	struct twin *t = &twins.list[twins.count++];
	*t = (struct twin){.start = m->start, .size = m->end - m->start};
	t->copy = map_private(t->size, PROT_READ | PROT_WRITE);
	if (t->copy && ((is_file(m->area) ? read_area(m, t->copy) : copy_area(m, t->copy)) ||
			RAW(SYS_mprotect, t->copy, t->size, rights_of_mapping(m)))) {
		RAW(SYS_munmap, t->copy, t->size);
		t->copy = 0;
	}
	return 0;
}

static void before_fork(void)
{
	uint64_t old;
	int saved = errno;
	lock_areas(&old);
	twins.mask = old;
	twins.count = twins.room = 0;
	twins.list = NULL;
	if (area_count)
		each_mapping(count_twin, NULL);
	if (twins.room)
		twins.list = (void *)(uintptr_t)map_private(twins.room * sizeof *twins.list, PROT_READ | PROT_WRITE);
	if (twins.list)
		each_mapping(make_twin, NULL);
	errno = saved;
}

static void after_fork(void)
{
	if (twins.list)
		RAW(SYS_munmap, twins.list, twins.room * sizeof *twins.list);
	twins.list = NULL;
	uint64_t old = twins.mask;
	unlock_areas(&old);
}

static void after_fork_parent(void)
{
	int saved = errno;
	for (size_t i = 0; i < twins.count; i++)
		if (twins.list[i].copy)
			RAW(SYS_munmap, twins.list[i].copy, twins.list[i].size);
	after_fork();
	errno = saved;
}

static void after_fork_child(void)
{
	int saved = errno;
	for (size_t i = 0; i < twins.count; i++) {
		struct twin *t = &twins.list[i];
		if (!t->copy ||
		    RAW(SYS_mremap, t->copy, t->size, t->size, MREMAP_MAYMOVE | MREMAP_FIXED, t->start) == -1)
			RAW(SYS_mmap, t->start, t->size, PROT_NONE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
	}
	for (int i = 0; i < area_count; i++)
		if (is_file(&areas[i]))
			raw_close(areas[i].fd);
	area_count = 0;
	atomic_store(&has_areas, 0);
	after_fork();
	errno = saved;
}

/*
 * handle_forks registers the handlers before those of all others, so that handlers of children find their memory, and
 * what handlers of parents have written is in the copy. It may be called before main, and calls no allocator.
 */
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *dso);
static int handle_forks(void)
{
	static atomic_int done;
	if (!atomic_exchange(&done, 1) &&
	    REAL(__register_atfork)(before_fork, after_fork_parent, after_fork_child, NULL))
		atomic_store(&done, 0);
	return atomic_load(&done) ? 0 : -1;
}

/* __register_atfork is what pthread_atfork, which is a part of each program and library, calls. */
EXPORT int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *dso)
{
	handle_forks();
	return REAL(__register_atfork)(before, parent, child, dso);
}

/* Forks for which the C library calls no handlers. */

static atomic_int shares_memory; /* another process may have the same memory */

__attribute__((constructor)) static void prepare_forks(void) { handle_forks(); }

EXPORT pid_t _Fork(void);
EXPORT pid_t _Fork(void)
{
	if (!atomic_load(&has_areas))
		return REAL(_Fork)();
	before_fork();
	pid_t child = REAL(_Fork)();
	child == 0 ? after_fork_child() : after_fork_parent();
	return child;
}

/* is_copying reports whether a process with these flags gets memory of its own. */
static int is_copying(uint64_t flags)
{
	if ((flags & (CLONE_VM | CLONE_VFORK | CLONE_THREAD)) == CLONE_VM)
		atomic_store(&shares_memory, 1);
	return !(flags & CLONE_VM) && atomic_load(&has_areas);
}

struct entry {
	int (*f)(void *);
	void *arg;
};

static int enter_child(void *arg)
{
	struct entry e = *(struct entry *)arg;
	after_fork_child();
	return e.f(e.arg);
}

EXPORT int clone(int (*f)(void *), void *stack, int flags, void *arg, ...)
{
	va_list ap;
	va_start(ap, arg);
	void *parent = va_arg(ap, void *), *tls = va_arg(ap, void *), *child = va_arg(ap, void *);
	va_end(ap);
	if (!is_copying(flags) || !f || !stack)
		return REAL(clone)(f, stack, flags, arg, parent, tls, child);
	struct entry e = {f, arg};
	before_fork();
	int r = REAL(clone)(enter_child, stack, flags, &e, parent, tls, child);
	after_fork_parent();
	return r;
}

static int load(uint64_t addr, void *data, size_t size);

/* fork_call executes the system calls that fork without the C library. */
static long fork_call(long number, const long *a)
{
	uint64_t flags = 0, args[6] = {0}; /* args[5]: the stack of clone3 */
	if (number == SYS_clone)
		flags = a[0];
	else if (number == SYS_clone3 && (size_t)a[1] >= sizeof args && load(a[0], args, sizeof args) == 0)
		flags = args[0];
	int has_stack = number == SYS_clone ? a[1] != 0 : args[5] != 0;
	int is_ours = is_copying(flags) && !has_stack;
	if (is_ours)
		before_fork();
	long r = RAW(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (is_ours)
		r == 0 ? after_fork_child() : after_fork_parent();
	return r;
}

/* Sharing. */

enum share_mode { SHARE_NEVER, SHARE_AUTO, SHARE_ALWAYS };

static enum share_mode share_mode(void)
{
	const char *s = setting(SHARE_MEMORY);
	return !s || !strcmp(s, "never") ? SHARE_NEVER : strcmp(s, "always") ? SHARE_AUTO : SHARE_ALWAYS;
}

/* Ranges that the program has given properties that a file would not have. If there are more, all memory is special. */
static struct special {
	uint64_t start, end;
} specials[MAX_SPECIALS];
static atomic_int special_count;

/* note_special notes a range. It stays noted when the memory is unmapped. */
static void note_special(uint64_t start, uint64_t size)
{
	uint64_t old;
	if (!size || atomic_load(&special_count) > MAX_SPECIALS || share_mode() != SHARE_AUTO)
		return;
	lock_areas(&old);
	int n = atomic_load(&special_count), i = 0;
	while (i < n && (start + size < specials[i].start || start > specials[i].end))
		i++;
	if (i == n)
		atomic_store(&special_count, n + 1);
	if (i == n && i < MAX_SPECIALS)
		specials[i] = (struct special){start, start + size};
	if (i < n && i < MAX_SPECIALS) {
		specials[i].start = start < specials[i].start ? start : specials[i].start;
		specials[i].end = start + size > specials[i].end ? start + size : specials[i].end;
	}
	unlock_areas(&old);
}

enum { UFFDIO_REGISTER = (int)0xc020aa00 };

/* note_ioctl notes memory whose pages another thread or process supplies (userfaultfd). */
static void note_ioctl(unsigned long request, const void *arg)
{
	uint64_t range[2];
	if ((int)request == UFFDIO_REGISTER && load((uintptr_t)arg, range, sizeof range) == 0)
		note_special(range[0], range[1]);
}

static int is_special(uint64_t start, uint64_t end)
{
	int n = atomic_load(&special_count);
	for (int i = 0; i < n && i < MAX_SPECIALS; i++)
		if (specials[i].start < end && start < specials[i].end)
			return 1;
	return n > MAX_SPECIALS;
}

/* A range is memory to share, and what is mapped there. */
struct range {
	uint64_t start, end; /* pages */
	uint64_t next;       /* up to here, the mappings are of one kind */
	uint64_t here;       /* an address of the stack in use */
	uint64_t last;       /* the end of the mapping before */
	int is_stack;        /* the mapping before, or one before it without a gap, is a stack */
	int is_near;         /* the same for the range */
	int is_private, is_bad, has_io, has_stack;
	struct area *area;
	uint64_t off; /* of start in the area's file */
};

/* is_io reports whether a mapping is that of a device or of a queue, by which the kernel may write to other memory. */
static int is_io(const char *name)
{
	return begins(name, "anon_inode:") || begins(name, "/[aio]") || begins(name, "socket:") ||
	       (begins(name, "/dev/") && !begins(name, "/dev/shm/") && !begins(name, "/dev/zero"));
}

/*
 * look_for_stack finds out whether a range is near a stack: the mappings between them are anonymous, and without a gap.
 * Parts of a stack that have properties of their own are mappings of their own, and have no name.
 */
static void look_for_stack(const struct mapping *m, struct range *r)
{
	int is_next = m->start == r->last && m->is_anonymous;
	int is_stack = (m->start <= r->here && r->here < m->end) || begins(m->name, "[stack]");
	r->is_stack = (r->is_stack && is_next) || is_stack;
	r->is_near = (r->is_near && is_next) || (m->start < r->end && r->start < m->end);
	r->last = m->end;
	r->has_stack |= r->is_stack && r->is_near;
}

static int look(struct mapping *m, void *arg)
{
	struct range *r = arg;
	if (m->area)
		m->area->seen = 1;
	if (is_io(m->name))
		r->has_io = 1;
	look_for_stack(m, r);
	if (m->end <= r->start || m->start >= r->end)
		return 0;
	int is_first = r->next == r->start;
	int is_private = m->is_anonymous && strcmp(m->rights, "rw-p") == 0 &&
			 (!m->name[0] || strcmp(m->name, "[heap]") == 0 || begins(m->name, "[anon:"));
	uint64_t off = m->off - m->start; /* of address 0, modulo 2^64 */
	if (is_first) {
		r->is_private = is_private;
		r->area = m->area;
		r->off = off + r->start;
		r->next = m->start;
	}
	if (m->start > r->next || (m->start > r->start && is_first) || is_private != r->is_private || m->area != r->area ||
	    (!is_private && (!m->area || strcmp(m->rights, "rw-s") || off + r->start != r->off)))
		r->is_bad = 1;
	r->next = m->end;
	return 0;
}

/* read_file reads the beginning of a file, as a string. */
static int read_file(const char *path, char *b, size_t size)
{
	int fd = RAW(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	ssize_t n = RAW(SYS_read, fd, b, size - 1);
	raw_close(fd);
	b[n > 0 ? n : 0] = 0;
	return n > 0 ? 0 : -1;
}

/* status_field returns a number in the status of a process, or -1. */
static long status_field(const char *status, const char *name)
{
	const char *p = strstr(status, name);
	return p ? atol(p + strlen(name)) : -1;
}

/* is_overcommitted reports whether private memory, too, may be missing when it is used first. */
static int is_overcommitted(void)
{
	char b[16];
	return read_file("/proc/sys/vm/overcommit_memory", b, sizeof b) == 0 && b[0] != '2';
}

static int is_registered(uint64_t start, uint64_t end);

/* may_move reports whether a range may be moved, as far as its mappings do not forbid it. */
static int may_move(const struct range *r, enum share_mode mode)
{
	char status[4096];
	const int is_auto = mode == SHARE_AUTO;
	if (atomic_load(&shares_memory))
		return 0;
	if (is_auto && (r->end - r->start > AUTO_BYTES || is_special(r->start, r->end)))
		return 0;
	if (read_file("/proc/self/status", status, sizeof status) || status_field(status, "\nThreads:") != 1 ||
	    (is_auto && (status_field(status, "\nVmLck:") != 0 || !is_overcommitted())))
		return 0;
	return !is_registered(r->start, r->end); /* of one thread: it cannot change */
}

/* has_room reports whether there may be one more area. */
static int has_room(const struct range *r, enum share_mode mode)
{
	uint64_t bytes = r->end - r->start;
	for (int i = 0; i < area_count; i++)
		bytes += areas[i].end - areas[i].start;
	return area_count < MAX_AREAS && (mode == SHARE_ALWAYS || bytes <= AUTO_BYTES);
}

/* limit returns a limit of the process. */
static uint64_t limit(int what)
{
	struct rlimit64 l;
	return RAW(SYS_prlimit64, 0, what, NULL, &l) ? 0 : l.rlim_cur;
}

/* raise_fd gives a file a number that does not change those that the program gets. It closes the other one. */
static int raise_fd(int fd)
{
	uint64_t half = limit(RLIMIT_NOFILE) / 2;
	int high = fd < 0 ? -1 : RAW(SYS_fcntl, fd, F_DUPFD_CLOEXEC, half < FIRST_FD ? (int)half : FIRST_FD);
	if (fd >= 0)
		raw_close(fd);
	return high;
}

/* write_pages copies the pages of a range to a file, except for those that were never used. */
static int write_pages(const struct range *r, int fd)
{
	const uint64_t page = sysconf(_SC_PAGESIZE), used = 3ull << 62; /* present, or swapped */
	uint64_t entries[PAGES_AT_ONCE];
	int failed = 0, pagemap = RAW(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
	for (uint64_t at = r->start; at < r->end && !failed;) {
		size_t count = (r->end - at) / page < PAGES_AT_ONCE ? (r->end - at) / page : PAGES_AT_ONCE;
		if (RAW(SYS_pread64, pagemap, entries, count * sizeof *entries, at / page * sizeof *entries) !=
		    (ssize_t)(count * sizeof *entries))
			memset(entries, 0xff, sizeof entries);
		for (size_t i = 0, n; i < count && !failed; i += n) {
			for (n = 1; i + n < count && !(entries[i] & used) == !(entries[i + n] & used);)
				n++;
			for (uint64_t done = 0; entries[i] & used && done < n * page && !failed;) {
				uint64_t from = at + i * page + done;
				ssize_t w = RAW(SYS_pwrite64, fd, from, n * page - done, from - r->start);
				done += w > 0 ? w : 0;
				failed = w == 0 || (w < 0 && errno != EINTR);
			}
		}
		at += count * page;
	}
	if (pagemap >= 0)
		raw_close(pagemap);
	return failed ? -1 : 0;
}

/* new_file returns a sealed file with the content of a range. */
static int new_file(const struct range *r, struct stat *st)
{
	if (limit(RLIMIT_FSIZE) < r->end - r->start) /* a write would end the program */
		return -1;
	int fd = raise_fd(RAW(SYS_memfd_create, "ddkrun", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -1;
	if (RAW(SYS_ftruncate, fd, r->end - r->start) == 0 && write_pages(r, fd) == 0 &&
	    RAW(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0 && raw_fstat(fd, st) == 0)
		return fd;
	raw_close(fd);
	return -1;
}

/* move replaces the pages of a range by a file. Signals are blocked. */
static struct area *move(const struct range *r)
{
	struct stat st;
	if (handle_forks())
		return NULL;
	int fd = new_file(r, &st);
	if (fd < 0)
		return NULL;
	if (RAW(SYS_mmap, r->start, r->end - r->start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == -1) {
		raw_close(fd);
		return NULL;
	}
	RAW(SYS_madvise, r->start, r->end - r->start, MADV_DONTFORK);
	struct area *a = &areas[area_count++];
	*a = (struct area){.dev = st.st_dev, .ino = st.st_ino, .fd = fd, .start = r->start, .end = r->end};
	atomic_store(&has_areas, area_count);
	return a;
}

/*
 * share returns a descriptor of the file that has the memory, and the offset in it. It returns -1 if the daemon has to
 * copy. The descriptor is the caller's.
 */
static int share(uint64_t addr, uint64_t size, uint64_t *off)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	const enum share_mode mode = share_mode();
	if (mode == SHARE_NEVER || !size || addr + size < addr || addr + size + page < page)
		return -1;
	struct range r = {.start = addr & ~(page - 1), .end = (addr + size + page - 1) & ~(page - 1)};
	r.next = r.start;
	r.here = (uintptr_t)&r;
	int fd = -1, saved = errno, is_whole = r.start == addr && r.end == addr + size;
	uint64_t old;
	lock_areas(&old);
	int can_move = is_whole && may_move(&r, mode);
	for (int i = 0; i < area_count; i++)
		areas[i].seen = 0;
	if ((can_move || touches_area(r.start, r.end)) && each_mapping(look, &r) == 0 && r.next >= r.end && !r.is_bad) {
		struct area *a = r.area;
		if (r.is_private && can_move) {
			forget_unseen();
			r.off = 0;
			int is_free = !r.has_stack && !(mode == SHARE_AUTO && r.has_io);
			a = is_free && has_room(&r, mode) ? move(&r) : NULL;
		}
		if (a && is_file(a)) {
			fd = RAW(SYS_fcntl, a->fd, F_DUPFD_CLOEXEC, 0);
			*off = r.off + (addr - r.start);
		}
	}
	unlock_areas(&old);
	errno = saved;
	return fd;
}

/* Calls that differ for shared mappings. */

/* A part is a range of which the mappings of areas are sought. */
struct part {
	uint64_t start, end;
	int found, prot; /* prot: of the last mapping */
	uint64_t mapped; /* bytes */
	int failed;
};

/* clip returns the part of a mapping that is in a range, and whether there is one. */
static int clip(const struct mapping *m, const struct part *p, uint64_t *start, uint64_t *size)
{
	uint64_t end = m->end < p->end ? m->end : p->end;
	*start = m->start > p->start ? m->start : p->start;
	*size = end - *start;
	return *start < end;
}

static int find_areas(struct mapping *m, void *arg)
{
	struct part *p = arg;
	uint64_t start, size;
	if (!clip(m, p, &start, &size))
		return 0;
	p->mapped += size;
	p->prot = rights_of_mapping(m);
	p->found |= m->area != NULL;
	return 0;
}

static int erase(struct mapping *m, void *arg)
{
	struct part *p = arg;
	uint64_t start, size;
	if (!m->area || !clip(m, p, &start, &size))
		return 0;
	p->found = 1;
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	if (is_file(m->area) ? RAW(SYS_fallocate, m->area->fd, mode, m->off + (start - m->start), size)
			     : RAW(SYS_madvise, start, size, MADV_REMOVE))
		p->failed = 1;
	return 0;
}

static int keep_from_children(struct mapping *m, void *arg)
{
	uint64_t start, size;
	if (m->area && clip(m, arg, &start, &size))
		RAW(SYS_madvise, start, size, MADV_DONTFORK);
	return 0;
}

enum { DONTNEED_LOCKED = 24 };

static int is_erasing(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == DONTNEED_LOCKED;
}

/* advise executes advice for a range in which areas may be mapped. The lock is held. */
static int advise(void *addr, size_t size, int advice)
{
	struct part p = {.start = (uintptr_t)addr, .end = (uintptr_t)addr + size};
	int r = RAW(SYS_madvise, addr, size, advice), saved = errno;
	if (advice == MADV_DOFORK)
		each_mapping(keep_from_children, &p);
	if (r == 0 && is_erasing(advice) && each_mapping(erase, &p) == 0 && p.failed)
		return -1;
	if (r < 0 && saved == EINVAL && advice == MADV_FREE && each_mapping(erase, &p) == 0 && p.found && !p.failed)
		r = 0; /* shared mappings cannot be freed lazily */
	errno = saved;
	return r;
}

/* has_advised executes advice that concerns areas. *r is the result if it has. */
static int has_advised(void *addr, size_t size, int advice, int *r)
{
	if (advice == MADV_HUGEPAGE || advice == MADV_DONTDUMP || advice == MADV_WIPEONFORK || advice == MADV_MERGEABLE)
		note_special((uintptr_t)addr, size);
	if (!atomic_load(&has_areas) || !(is_erasing(advice) || advice == MADV_DOFORK))
		return 0;
	uint64_t old;
	lock_areas(&old);
	int is_ours = touches_area((uintptr_t)addr, (uintptr_t)addr + size);
	if (is_ours)
		*r = advise(addr, size, advice);
	unlock_areas(&old);
	return is_ours;
}

EXPORT int madvise(void *addr, size_t size, int advice)
{
	int r, (*real)(void *, size_t, int) = READY(madvise);
	if (has_advised(addr, size, advice, &r))
		return r;
	return real ? real(addr, size, advice) : RAW(SYS_madvise, addr, size, advice);
}

EXPORT int pkey_mprotect(void *addr, size_t size, int prot, int key)
{
	if (key >= 0)
		note_special((uintptr_t)addr, size);
	return REAL(pkey_mprotect)(addr, size, prot, key);
}

/* A relocation moves the mappings of a range. */
struct relocation {
	struct part part;
	uint64_t to;
};

static int relocate_mapping(struct mapping *m, void *arg)
{
	struct relocation *l = arg;
	uint64_t start, size;
	if (!clip(m, &l->part, &start, &size))
		return 0;
	if (m->area)
		m->area->is_elsewhere = 1;
	if (RAW(SYS_mremap, start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, l->to + (start - l->part.start)) == -1)
		l->part.failed = 1;
	return 0;
}

/* relocate is mremap for a range with several mappings, of which the kernel moves one at a time. The lock is held. */
static long relocate(struct part p, uint64_t to, int flags, uint64_t at)
{
	const uint64_t page = sysconf(_SC_PAGESIZE), size = p.end - p.start;
	const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
	const int is_fixed = flags & MREMAP_FIXED;
	if (is_fixed && (!(flags & MREMAP_MAYMOVE) || at & (page - 1) || at + to < at))
		return fail(EINVAL);
	if (is_fixed && at < p.end && p.start < at + to)
		return fail(EINVAL);
	if (p.mapped < size)
		return fail(EFAULT);
	if (!is_fixed) {
		long more = RAW(SYS_mmap, p.end, to - size, p.prot, kind | MAP_FIXED_NOREPLACE, -1, 0);
		if (more == (long)p.end)
			return p.start;
		if (more != -1)
			RAW(SYS_munmap, more, to - size); /* a kernel that does not know the flag */
		if (!(flags & MREMAP_MAYMOVE))
			return fail(ENOMEM);
	}
	long new = RAW(SYS_mmap, is_fixed ? at : 0, to, p.prot, kind | (is_fixed ? MAP_FIXED : 0), -1, 0);
	if (new == -1)
		return -1;
	if (to < size) {
		RAW(SYS_munmap, p.start + to, size - to);
		p.end = p.start + to;
	}
	struct relocation l = {.part = p, .to = new};
	each_mapping(relocate_mapping, &l);
	return l.part.failed ? fail(ENOMEM) : new;
}

/* has_moved executes mremap for areas. *r is the result if it has. */
static int has_moved(uint64_t addr, size_t size, size_t to, int flags, uint64_t at, long *r)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	const uint64_t whole = (size + page - 1) & ~(page - 1), target = (to + page - 1) & ~(page - 1);
	struct part p = {.start = addr, .end = addr + whole};
	int is_plain = !size || !to || addr & (page - 1) || whole < size || target < to ||
		       flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED) || (target <= whole && !(flags & MREMAP_FIXED));
	if (!atomic_load(&has_areas) || is_plain)
		return 0;
	uint64_t old;
	int saved = errno;
	lock_areas(&old);
	if (touches_area(p.start, p.end))
		each_mapping(find_areas, &p);
	if (p.found)
		*r = relocate(p, target, flags, at);
	unlock_areas(&old);
	if (!p.found || *r != -1)
		errno = saved;
	return p.found;
}

EXPORT void *mremap(void *addr, size_t size, size_t to, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	void *at = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
	va_end(ap);
	void *(*real)(void *, size_t, size_t, int, ...) = READY(mremap);
	long r;
	if (has_moved((uintptr_t)addr, size, to, flags, (uintptr_t)at, &r))
		return (void *)r;
	return real ? real(addr, size, to, flags, at) : (void *)RAW(SYS_mremap, addr, size, to, flags, at);
}

/* memory_call executes a system call that a function above replaces. *known is 0 if there is none. */
static long memory_call(long number, const long *a, int *known)
{
	long r = 0;
	int advised = 0;
	*known = 0;
	switch (number) {
	case SYS_madvise:
		*known = has_advised((void *)a[0], a[1], a[2], &advised);
		return advised;
	case SYS_mremap:
		*known = has_moved(a[0], a[1], a[2], a[3], a[4], &r);
		return r;
	case SYS_pkey_mprotect:
		if ((int)a[3] < 0)
			break;
		/* fall through */
	case SYS_mbind:
		note_special(a[0], a[1]);
		break;
	case SYS_ioctl:
		note_ioctl(a[1], (void *)a[2]);
		break;
#ifdef SYS_fork
	case SYS_fork:
#endif
	case SYS_clone:
	case SYS_clone3:
		*known = 1;
		return fork_call(number, a);
	}
	return 0;
}
