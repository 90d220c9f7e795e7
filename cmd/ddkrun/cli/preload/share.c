/*
 * ddkrun --share-memory: memory that a program registers is moved to a file in memory (memfd), which the daemon maps.
 * The daemon then needs no system call for a copy. This file is a part of preload.c.
 *
 * Moving is a copy to the file, and a mapping of the file in place of the old pages. What the program writes between
 * the two would be lost. Therefore memory is moved only if it is private, anonymous, consists of whole pages and has no
 * stack, and only while the process has one thread and its signals are blocked. The daemon copies other memory as
 * without the option. Memory remains in the file after it is deregistered.
 *
 * A shared mapping differs from a private one in these cases:
 *
 *   fork              the child gets a private copy (fork handlers)
 *   MADV_DONTNEED     does not erase a shared mapping; madvise is replaced
 *   mremap to grow    the file has a fixed size; mremap is replaced, and fails with ENOMEM
 *
 * Calls that other processes, or the kernel for them, make in the meantime are not known: io_uring, process_vm_writev.
 */

enum { MAX_AREAS = 256, MAPS_BUFFER = 8192 };

/* An area is a file that memory was moved to. The descriptor is valid only if it is still that file. */
static struct area {
	dev_t dev;
	ino_t ino;
	int fd;
	int snapshot; /* while a fork is in progress: its descriptor, or -1 */
	int is_lost;  /* while a fork is in progress: the snapshot is incomplete */
	int seen;     /* while mappings are read */
} areas[MAX_AREAS];
static int area_count;
static atomic_int has_areas; /* so that calls of programs without areas take no lock */
static pthread_mutex_t areas_lock = PTHREAD_MUTEX_INITIALIZER;

/* A mapping is a line of /proc/self/maps. */
struct mapping {
	uint64_t start, end, off;
	char rights[5], name[16];
	struct area *area; /* NULL if it is none of our files */
	int is_anonymous;
};

static struct area *area_of(dev_t dev, ino_t ino)
{
	for (int i = 0; i < area_count; i++)
		if (areas[i].ino == ino && areas[i].dev == dev)
			return &areas[i];
	return NULL;
}

static int parse_mapping(const char *line, struct mapping *m)
{
	unsigned major, minor;
	unsigned long ino;
	memset(m, 0, sizeof *m);
	int n = sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %15s", &m->start, &m->end, m->rights, &m->off, &major, &minor, &ino,
		       m->name);
	if (n < 7)
		return -1;
	m->is_anonymous = ino == 0;
	if (ino)
		m->area = area_of(makedev(major, minor), ino);
	return 0;
}

/* each_mapping calls f for each mapping of the process. It returns -1 if they cannot be read, or f has returned it. */
static int each_mapping(int (*f)(struct mapping *m, void *arg), void *arg)
{
	char b[MAPS_BUFFER];
	size_t have = 0;
	int fd = RAW(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), r = -1;
	if (fd < 0)
		return -1;
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
static int is_file(struct area *a)
{
	struct stat st;
	return a->fd >= 0 && raw_fstat(a->fd, &st) == 0 && st.st_ino == a->ino && st.st_dev == a->dev;
}

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

/* Forks. The snapshots are the memory of the child. */

static int take_snapshot(struct mapping *m, void *arg)
{
	(void)arg;
	if (!m->area || m->rights[0] != 'r')
		return 0;
	struct area *a = m->area;
	if (a->snapshot < 0)
		a->snapshot = RAW(SYS_memfd_create, "ddkrun-fork", MFD_CLOEXEC);
	a->is_lost |= a->snapshot < 0; /* the child then has no access */
	for (uint64_t at = m->start; !a->is_lost && at < m->end;) {
		ssize_t n = RAW(SYS_pwrite64, a->snapshot, at, m->end - at, m->off + (at - m->start));
		if (n > 0)
			at += n;
		else
			a->is_lost = errno != EINTR;
	}
	return 0;
}

static void before_fork(void)
{
	pthread_mutex_lock(&areas_lock);
	for (int i = 0; i < area_count; i++)
		areas[i].snapshot = -1, areas[i].is_lost = 0;
	if (area_count)
		each_mapping(take_snapshot, NULL);
}

static void close_snapshots(void)
{
	for (int i = 0; i < area_count; i++)
		if (areas[i].snapshot >= 0)
			raw_close(areas[i].snapshot);
}

static void after_fork_parent(void)
{
	close_snapshots();
	pthread_mutex_unlock(&areas_lock);
}

static int use_snapshot(struct mapping *m, void *arg)
{
	(void)arg;
	struct area *a = m->area;
	if (!a)
		return 0;
	int prot = (m->rights[0] == 'r' ? PROT_READ : 0) | (m->rights[1] == 'w' ? PROT_WRITE : 0);
	long p = -1;
	if (a->snapshot >= 0 && !a->is_lost)
		p = RAW(SYS_mmap, m->start, m->end - m->start, prot, MAP_PRIVATE | MAP_FIXED, a->snapshot, m->off);
	if (p == -1)
		RAW(SYS_mmap, m->start, m->end - m->start, PROT_NONE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
	return 0;
}

static void after_fork_child(void)
{
	if (area_count)
		each_mapping(use_snapshot, NULL);
	close_snapshots();
	for (int i = 0; i < area_count; i++)
		if (is_file(&areas[i]))
			raw_close(areas[i].fd);
	area_count = 0;
	atomic_store(&has_areas, 0);
	pthread_mutex_unlock(&areas_lock);
}

/* handle_forks has forks give the child its own memory. It returns -1 if that is not possible. */
static int handle_forks(void)
{
	static int done;
	if (!done && pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0)
		done = 1;
	return done ? 0 : -1;
}

/* Sharing. */

/* A range is memory to share, and what is mapped there. */
struct range {
	uint64_t start, end; /* pages */
	uint64_t next;       /* up to here, the mappings are of one kind */
	int is_private, is_bad;
	struct area *area;
	uint64_t off; /* of start in the area's file */
};

static int look(struct mapping *m, void *arg)
{
	struct range *r = arg;
	if (m->area)
		m->area->seen = 1;
	if (m->end <= r->start || m->start >= r->end)
		return 0;
	int is_first = r->next == r->start;
	int is_private = m->is_anonymous && strcmp(m->rights, "rw-p") == 0 &&
			 (!m->name[0] || strcmp(m->name, "[heap]") == 0 || strncmp(m->name, "[anon:", 6) == 0);
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

/* is_alone reports whether the process has one thread. */
static int is_alone(void)
{
	char b[1024];
	int fd = RAW(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	ssize_t n = RAW(SYS_read, fd, b, sizeof b - 1);
	raw_close(fd);
	if (n <= 0)
		return 0;
	b[n] = 0;
	char *p = strrchr(b, ')'); /* the end of field 2; the number of threads is field 20 */
	for (int field = 2; p && field < 20; field++)
		p = strchr(p + 1, ' ');
	return p && atoi(p + 1) == 1;
}

/* new_file returns a sealed file with the content of a range. */
static int new_file(const struct range *r, struct stat *st)
{
	int fd = RAW(SYS_memfd_create, "ddkrun", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	for (uint64_t at = r->start; at < r->end;) {
		ssize_t n = RAW(SYS_pwrite64, fd, at, r->end - at, at - r->start);
		if (n > 0)
			at += n;
		else if (errno != EINTR)
			goto fail;
	}
	if (RAW(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0 && raw_fstat(fd, st) == 0)
		return fd;
fail:
	raw_close(fd);
	return -1;
}

/* move replaces the pages of a range by a file. Signals are blocked. */
static struct area *move(const struct range *r)
{
	struct stat st;
	if (area_count == MAX_AREAS || !is_alone() || handle_forks())
		return NULL;
	int fd = new_file(r, &st);
	if (fd < 0)
		return NULL;
	if (RAW(SYS_mmap, r->start, r->end - r->start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == -1) {
		raw_close(fd);
		return NULL;
	}
	struct area *a = &areas[area_count++];
	*a = (struct area){.dev = st.st_dev, .ino = st.st_ino, .fd = fd, .snapshot = -1};
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
	const char *on = setting(SHARE_MEMORY);
	if (!on || strcmp(on, "1") || !size || addr + size < addr || addr + size + page < page)
		return -1;
	struct range r = {.start = addr & ~(page - 1), .end = (addr + size + page - 1) & ~(page - 1)};
	r.next = r.start;
	int fd = -1, saved = errno, is_whole = r.start == addr && r.end == addr + size;
	uint64_t here = (uintptr_t)&r;
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_mutex_lock(&areas_lock);
	for (int i = 0; i < area_count; i++)
		areas[i].seen = 0;
	if (each_mapping(look, &r) == 0 && r.next >= r.end && !r.is_bad) {
		struct area *a = r.area;
		if (r.is_private) {
			forget_unseen();
			r.off = 0;
			a = is_whole && (here < r.start || here >= r.end) ? move(&r) : NULL;
		}
		if (a && is_file(a)) {
			fd = RAW(SYS_fcntl, a->fd, F_DUPFD_CLOEXEC, 0);
			*off = r.off + (addr - r.start);
		}
	}
	pthread_mutex_unlock(&areas_lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return fd;
}

/* Calls that differ for shared mappings. */

/* A part is a range of which the mappings of areas are sought. */
struct part {
	uint64_t start, end;
	int found, is_erased, failed;
};

static int visit(struct mapping *m, void *arg)
{
	struct part *p = arg;
	uint64_t start = m->start > p->start ? m->start : p->start, end = m->end < p->end ? m->end : p->end;
	if (!m->area || start >= end)
		return 0;
	p->found = 1;
	if (p->is_erased && RAW(SYS_madvise, start, end - start, MADV_REMOVE))
		p->failed = 1;
	return 0;
}

static int visit_areas(struct part *p)
{
	if (!atomic_load(&has_areas))
		return 0;
	int saved = errno;
	pthread_mutex_lock(&areas_lock);
	each_mapping(visit, p);
	pthread_mutex_unlock(&areas_lock);
	if (!p->failed)
		errno = saved;
	return p->found;
}

EXPORT int madvise(void *addr, size_t size, int advice)
{
	struct part p = {.start = (uintptr_t)addr, .end = (uintptr_t)addr + size, .is_erased = 1};
	int r = RAW(SYS_madvise, addr, size, advice);
	if (r == 0 && (advice == MADV_DONTNEED || advice == MADV_FREE) && visit_areas(&p) && p.failed)
		return -1;
	if (r < 0 && errno == EINVAL && advice == MADV_FREE && visit_areas(&p) && !p.failed)
		return 0; /* shared mappings cannot be freed lazily */
	return r;
}

EXPORT void *mremap(void *addr, size_t size, size_t to, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	void *at = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
	va_end(ap);
	struct part p = {.start = (uintptr_t)addr, .end = (uintptr_t)addr + size};
	if (to > size && size && visit_areas(&p)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)RAW(SYS_mremap, addr, size, to, flags, at);
}
