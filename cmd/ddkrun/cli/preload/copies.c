/*
 * Memory that the daemon cannot reach, because it runs as another user, in another container, or because the program
 * protects its memory. A thread of the program copies it then, on request of the daemon: package internal/kproxy/schema, Copy. It
 * starts when the daemon has rejected a registration for that reason. This file is a part of preload.c.
 *
 * The thread copies memory that the program has registered, and no other. All signals are blocked in it. It has a table
 * of descriptors of its own, so that it keeps no file of the program open, and no call of the program closes its socket.
 * The kernel reads and writes the memory when the thread sends and receives, so an address that is not mapped any more
 * is an error, and no fault. A child process has no such thread; its registrations fail.
 */

enum { MAX_COPY = 64 << 10, COPY_READ = 1, COPY_WRITE = 2, COPIES_STACK = 256 << 10 };

struct copy {
	uint64_t id, token, addr;
	uint32_t length, kind;
};

struct copy_reply {
	uint64_t id, failed;
};

/*
 * A region is memory that the program has registered, or registers, and that is not shared. It is removed when that
 * ends. Memory of a region is not moved (share.c), since the daemon may write to it meanwhile.
 */
struct region {
	struct region *next;
	uint64_t token, start, size;
	uint32_t handle;
	int has_handle, is_writable;
};

/* has_region reports whether the program permits a copy. copies_lock is held. */
static int has_region(struct device *d, const struct copy *c)
{
	struct region *r = d->regions;
	while (r && r->token != c->token)
		r = r->next;
	return r && c->addr >= r->start && c->length <= r->size && c->addr - r->start <= r->size - c->length &&
	       (r->is_writable || c->kind == COPY_READ);
}

/* copy_once executes one message. It returns -1 at the end of the connection. copies_lock is held. */
static int copy_once(struct device *d, int fd, struct copy *c)
{
	int ok = has_region(d, c), is_read = c->kind == COPY_READ;
	struct copy_reply reply = {.id = c->id};
	struct iovec in[2] = {{c, sizeof *c}, {(void *)(uintptr_t)c->addr, c->length}},
		     out[2] = {{&reply, sizeof reply}, in[1]};
	struct msghdr from = {.msg_iov = in, .msg_iovlen = ok && !is_read ? 2 : 1},
		      to = {.msg_iov = out, .msg_iovlen = ok && is_read ? 2 : 1};
	ssize_t n = RAW(SYS_recvmsg, fd, &from, 0);
	if (n < 0 && errno != EFAULT)
		return -1;
	reply.failed = !ok || n < 0;
	n = RAW(SYS_sendmsg, fd, &to, MSG_NOSIGNAL);
	if (n < 0 && errno == EFAULT && is_read) {
		reply.failed = 1;
		to.msg_iovlen = 1;
		n = RAW(SYS_sendmsg, fd, &to, MSG_NOSIGNAL);
	}
	return n < 0 ? -1 : 0;
}

/* is_copy reports whether a message of n bytes is valid. */
static int is_copy(const struct copy *c, ssize_t n)
{
	return n >= (ssize_t)sizeof *c && (c->kind == COPY_READ || c->kind == COPY_WRITE) && c->length <= MAX_COPY &&
	       n == (ssize_t)(sizeof *c + (c->kind == COPY_WRITE ? c->length : 0));
}

/* A start is what a new thread gets, until it has posted ready. */
struct start {
	struct device *d;
	int fd, ok;
	sem_t ready;
};

static void *serve_copies(void *arg)
{
	struct start *s = arg;
	struct device *d = s->d;
	int fd = s->fd;
	RAW(SYS_prctl, PR_SET_NAME, "ddkrun-copies");
	s->ok = RAW(SYS_unshare, CLONE_FILES) == 0 && RAW(SYS_close_range, fd + 1, ~0u, 0) == 0 &&
		(fd == 0 || RAW(SYS_close_range, 0, fd - 1, 0) == 0) && RAW(SYS_fcntl, fd, F_SETFL, 0) == 0;
	int ok = s->ok;
	sem_post(&s->ready);
	while (ok) {
		struct copy c;
		ssize_t n = RAW(SYS_recvfrom, fd, &c, sizeof c, MSG_PEEK | MSG_TRUNC, NULL, NULL);
		if (n < 0 && errno == EINTR)
			continue;
		if (!is_copy(&c, n))
			break;
		pthread_mutex_lock(&d->copies_lock);
		ok = copy_once(d, fd, &c) == 0;
		pthread_mutex_unlock(&d->copies_lock);
	}
	raw_close(fd);
	drop(d);
	return NULL;
}

/* start_copies starts the thread that serves a socket. It takes the socket over. */
static void start_copies(struct device *d, int fd)
{
	struct start s = {.d = d, .fd = fd};
	uint64_t old;
	pthread_attr_t attr;
	pthread_t thread;
	sem_init(&s.ready, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, COPIES_STACK);
	block_signals(&old);
	atomic_fetch_add(&d->refs, 1); /* of the thread */
	if (pthread_create(&thread, &attr, serve_copies, &s) == 0) {
		while (sem_wait(&s.ready))
			;
		d->is_copied = s.ok;
	} else {
		drop(d);
	}
	restore_signals(&old);
	pthread_attr_destroy(&attr);
	sem_destroy(&s.ready);
	raw_close(fd); /* the thread has its own */
}

/* remove_regions removes the regions with a token or, if the token is 0, with a handle, except for one. */
static void remove_regions(struct device *d, uint64_t token, uint32_t handle, uint64_t except)
{
	pthread_mutex_lock(&d->copies_lock);
	for (struct region **p = &d->regions, *r; (r = *p);) {
		int is_it = token ? r->token == token : r->has_handle && r->handle == handle && r->token != except;
		if (is_it) {
			*p = r->next;
			d->region_count--;
			free(r);
		} else {
			p = &r->next;
		}
	}
	pthread_mutex_unlock(&d->copies_lock);
}

/* forget_regions removes all regions. */
static void forget_regions(struct device *d)
{
	d->region_count = d->has_others = 0;
	for (struct region *r; (r = d->regions);) {
		d->regions = r->next;
		free(r);
	}
}

/* name_region gives the region with a token the handle of its MR, and ends the one that the MR had before. */
static void name_region(struct device *d, uint64_t token, uint32_t handle)
{
	remove_regions(d, 0, handle, token);
	pthread_mutex_lock(&d->copies_lock);
	for (struct region *r = d->regions; r; r = r->next)
		if (r->token == token)
			r->handle = handle, r->has_handle = 1;
	pthread_mutex_unlock(&d->copies_lock);
}

/* set_rights changes whether the daemon may write to the memory of an MR. */
static void set_rights(struct device *d, uint32_t handle, int is_writable)
{
	pthread_mutex_lock(&d->copies_lock);
	for (struct region *r = d->regions; r; r = r->next)
		if (r->has_handle && r->handle == handle)
			r->is_writable = is_writable;
	pthread_mutex_unlock(&d->copies_lock);
}

/* A span is memory that is to be mapped, up to start so far. */
struct span {
	uint64_t start, end;
	int is_writable;
};

static int find_gap(struct mapping *m, void *arg)
{
	struct span *s = arg;
	if (m->end > s->start && m->start <= s->start && m->rights[0] == 'r' && (m->rights[1] == 'w' || !s->is_writable))
		s->start = m->end;
	return 0;
}

/* is_mapped reports whether memory exists, with the rights to it. */
static int is_mapped(uint64_t start, uint64_t size, int is_writable)
{
	struct span s = {start, start + size, is_writable};
	uint64_t old;
	lock_areas(&old);
	int r = each_mapping(find_gap, &s);
	unlock_areas(&old);
	return r == 0 && s.start >= s.end;
}

/* Without a thread that copies, a device has this many regions in its list. */
enum { MAX_REGIONS = 1024 };

/* add_region returns the token of a new region, 0 with errno if there is none. */
static uint64_t add_region(struct device *d, uint64_t start, uint64_t size, int is_writable)
{
	if (d->is_copied && (start + size < start || !is_mapped(start, size, is_writable))) {
		errno = EFAULT;
		return 0;
	}
	struct region *r = d->is_copied || d->region_count < MAX_REGIONS ? calloc(1, sizeof *r) : NULL;
	if (!r) {
		d->has_others = 1;
		return 0;
	}
	r->start = start;
	r->size = size;
	r->is_writable = is_writable;
	pthread_mutex_lock(&d->copies_lock);
	r->token = ++d->last_token;
	r->next = d->regions;
	d->regions = r;
	d->region_count++;
	pthread_mutex_unlock(&d->copies_lock);
	return r->token;
}

/* is_registered reports whether a range may have memory of a region of this process. */
static int is_registered(uint64_t start, uint64_t end)
{
	int found = 0;
	for (struct device *d = atomic_load(&all_devices); d && !found; d = d->other) {
		if (d->pid != own_pid())
			continue;
		pthread_mutex_lock(&d->copies_lock);
		found = d->has_others;
		for (struct region *r = d->regions; r && !found; r = r->next)
			found = r->start < end && start < r->start + r->size;
		pthread_mutex_unlock(&d->copies_lock);
	}
	return found;
}

/* load copies from an address of the program, which may be wrong. */
static int load(uint64_t addr, void *data, size_t size)
{
	struct iovec to = {data, size}, from = {(void *)(uintptr_t)addr, size};
	ssize_t n = RAW(SYS_process_vm_readv, own_pid(), &to, 1, &from, 1, 0);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* the system does not permit the checked way */
		memcpy(data, (void *)(uintptr_t)addr, size);
		n = size;
	}
	return n == (ssize_t)size ? 0 : -1;
}

/*
 * Residence. Linux pins the pages of memory that is registered: it brings them in, by faults of reads or, if the region
 * permits an access that may write (ib_access_writable), of writes. Here they are brought in, so that no access of the
 * daemon finds a page missing that the program has to supply (userfaultfd). No lock is held meanwhile: another thread may
 * be the one that supplies them.
 */

enum { POPULATE_READ = 22, POPULATE_WRITE = 23, PAGES_OF_A_CALL = 1024 };

/*
 * touch is populate for kernels before 5.14. A copy to or from memory without rights fails when the kernel has brought in
 * the pages of the other side, of which it takes 1,024 at once. Nothing is read or written.
 */
static void touch(uint64_t from, uint64_t to, int is_writable)
{
	const uint64_t most = PAGES_OF_A_CALL * sysconf(_SC_PAGESIZE);
	const long number = is_writable ? SYS_process_vm_writev : SYS_process_vm_readv;
	uint64_t none = map_private(most, PROT_NONE);
	for (; none && from < to; from += most) {
		uint64_t size = to - from < most ? to - from : most;
		struct iovec here = {(void *)(uintptr_t)none, size}, there = {(void *)(uintptr_t)from, size};
		RAW(number, own_pid(), &here, 1, &there, 1, 0);
	}
	if (none)
		RAW(SYS_munmap, none, most);
}

/* bring_in calls madvise for parts, so that the kernel's lock of the mappings is free between them for the daemon. */
static int bring_in(uint64_t from, uint64_t to, int advice)
{
	const uint64_t most = PAGES_OF_A_CALL * sysconf(_SC_PAGESIZE);
	int r = 0;
	for (; r == 0 && from < to; from += most)
		while ((r = RAW(SYS_madvise, from, to - from < most ? to - from : most, advice)) < 0 && errno == EINTR)
			;
	return r;
}

/*
 * populate makes the pages of a registration resident. It returns 0 or an errno: EFAULT or ENOMEM if that is not possible
 * although the memory is mapped with the rights that the daemon needs. The daemon rejects memory that is not.
 */
static int populate(const struct registration *g)
{
	const uint64_t page = sysconf(_SC_PAGESIZE), from = g->start & ~(page - 1);
	const uint64_t to = (g->start + g->size + page - 1) & ~(page - 1);
	static atomic_int is_old; /* the kernel does not know the advice */
	int saved = errno, r = 0;
	if (!g->size || g->start + g->size < g->start || to <= from)
		return 0;
	if (!is_old)
		r = bring_in(from, to, g->is_written ? POPULATE_WRITE : POPULATE_READ);
	int failed = errno;
	errno = saved;
	if (is_old || (r < 0 && failed == EINVAL)) {
		uint64_t known = map_private(page, PROT_READ | PROT_WRITE);
		is_old = is_old || (known && RAW(SYS_madvise, known, page, POPULATE_READ) < 0);
		if (known)
			RAW(SYS_munmap, known, page);
		if (is_old)
			touch(from, to, g->is_written);
		r = is_old ? 0 : r;
	}
	errno = saved;
	if (r == 0 || !is_mapped(from, to - from, g->is_writable))
		return 0;
	return failed == ENOMEM ? ENOMEM : EFAULT;
}

enum { REREG_MEMORY = 1, REREG_ACCESS = 4, LOCAL_WRITE = 1, WRITING = 0x1b, REG_MR_SIZE = 48, REREG_MR_SIZE = 56, DEREG_MR_SIZE = 12 };

static uint32_t u32_at(const char *b, int at)
{
	uint32_t v;
	memcpy(&v, b + at, sizeof v);
	return v;
}

static uint64_t u64_at(const char *b, int at)
{
	uint64_t v;
	memcpy(&v, b + at, sizeof v);
	return v;
}

/* parse_registration reports whether a command is about an MR, and what it does. */
static int parse_registration(const void *buf, size_t size, struct registration *r)
{
	char b[REREG_MR_SIZE] = {0};
	uint16_t words;
	if (size < DEREG_MR_SIZE || load((uintptr_t)buf, b, size < sizeof b ? size : sizeof b))
		return 0;
	*r = (struct registration){.command = u32_at(b, 0)};
	memcpy(&words, b + 4, sizeof words);
	if (words * 4u != size)
		return 0;
	if (r->command == REG_MR && size >= REG_MR_SIZE) {
		r->response = u64_at(b, 8);
		r->start = u64_at(b, 16);
		r->size = u64_at(b, 24);
		r->is_writable = u32_at(b, 44) & LOCAL_WRITE;
		r->is_written = u32_at(b, 44) & WRITING;
		r->has_memory = 1;
		return 1;
	}
	if (r->command == REREG_MR && size >= REREG_MR_SIZE) {
		r->handle = u32_at(b, 16);
		r->flags = u32_at(b, 20);
		r->start = u64_at(b, 24);
		r->size = u64_at(b, 32);
		r->is_writable = u32_at(b, 52) & LOCAL_WRITE;
		r->is_written = u32_at(b, 52) & WRITING;
		r->has_memory = r->flags & REREG_MEMORY;
		return 1;
	}
	r->handle = u32_at(b, 8);
	return r->command == DEREG_MR;
}

/* settle_registration applies a command that has been executed to the regions. token is that of its memory, or 0. */
static void settle_registration(struct device *d, struct registration *r, uint64_t token)
{
	int saved = errno;
	if (r->command == DEREG_MR) {
		remove_regions(d, 0, r->handle, 0);
	} else if (token && (r->command == REREG_MR || load(r->response, &r->handle, sizeof r->handle) == 0)) {
		name_region(d, token, r->handle);
	} else if (r->command == REREG_MR && r->has_memory) { /* memory of no bytes */
		remove_regions(d, 0, r->handle, 0);
	} else if (r->command == REREG_MR && r->flags & REREG_ACCESS) {
		set_rights(d, r->handle, r->is_writable);
	}
	errno = saved;
}

/* rights_of reports whether the daemon may write to the memory of an MR. */
static int rights_of(struct device *d, uint32_t handle)
{
	int is_writable = 0;
	pthread_mutex_lock(&d->copies_lock);
	for (struct region *r = d->regions; r; r = r->next)
		if (r->has_handle && r->handle == handle)
			is_writable = r->is_writable;
	pthread_mutex_unlock(&d->copies_lock);
	return is_writable;
}

/* new_token returns the token of the memory that a command registers, 0 with errno if there is none. */
static uint64_t new_token(struct device *d, const struct registration *r)
{
	int keeps_rights = r->command == REREG_MR && !(r->flags & REREG_ACCESS);
	return add_region(d, r->start, r->size, keeps_rights ? rights_of(d, r->handle) : r->is_writable);
}

/* register_once executes a command about an MR. If there is a file, it has the memory, from an offset on. */
static ssize_t register_once(int fd, struct device *d, const void *buf, size_t size, struct registration *r, int file,
			     uint64_t off)
{
	struct request q = {.op = OP_WRITE, .b = off};
	int is_own = d->pid == own_pid(), is_copied = d->is_copied && is_own;
	uint64_t token = 0;
	if (file < 0 && r->has_memory && r->size && is_own && !(token = new_token(d, r)) && is_copied)
		return -1;
	if (file < 0)
		q.b = is_copied ? token : 0;
	ssize_t n = call_device(fd, d, &q, buf, size, file);
	if (is_own && n >= 0)
		settle_registration(d, r, token);
	else if (token)
		remove_regions(d, token, 0, 0);
	return n;
}

/*
 * register_memory executes a command about an MR. If the daemon cannot reach the memory, the thread starts, and the
 * command is repeated. Of several commands for the first such memory, one gets the socket; the others wait for it.
 */
static ssize_t register_memory(int fd, struct device *d, const void *buf, size_t size, struct registration *r)
{
	uint64_t off = 0;
	const int is_own = d->pid == own_pid();
	int file = r->command == REG_MR ? share(r->start, r->size, &off) : -1, failed = 0;
	if (r->has_memory)
		failed = populate(r);
	if (is_own && r->has_memory)
		pthread_mutex_lock(&d->register_lock);
	int was_copied = d->is_copied;
	ssize_t n = failed ? set_errno(-failed) : register_once(fd, d, buf, size, r, file, off);
	if (n < 0 && !failed && is_own && r->has_memory && d->is_copied && (!was_copied || file >= 0))
		n = register_once(fd, d, buf, size, r, -1, 0);
	if (is_own && r->has_memory)
		pthread_mutex_unlock(&d->register_lock);
	if (file >= 0)
		raw_close(file);
	return n;
}

/* An ioctl that destroys an MR: its header, and its only attribute. */
struct destroy_mr {
	uint16_t length, object, method, attrs;
	uint64_t reserved;
	uint32_t driver, reserved2;
	uint16_t attr, size, flags, reserved3;
	uint64_t handle;
};

enum { VERBS_IOCTL = 0xc0181b01, OBJECT_MR = 7, MR_DESTROY = 1 };

/* destroyed_mr reports whether an ioctl destroys an MR, and which. */
static int destroyed_mr(struct device *d, unsigned long request, const void *arg, uint32_t *handle)
{
	struct destroy_mr m;
	if (!d->regions || d->pid != own_pid() || (uint32_t)request != VERBS_IOCTL ||
	    load((uintptr_t)arg, &m, sizeof m) || m.object != OBJECT_MR || m.method != MR_DESTROY || m.attrs != 1)
		return 0;
	*handle = (uint32_t)m.handle;
	return 1;
}
