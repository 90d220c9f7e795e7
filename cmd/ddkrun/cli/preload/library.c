/*
 * Faults of libibverbs's user library, for programs that use it as it is. The functions of a context that have faults
 * are replaced by others, which use only those that work in all versions. This file is a part of preload.c, and, with
 * ALONE, a library for programs of the carrier seccomp.
 *
 * The functions are replaced where the provider sets them. It calls verbs_set_ops of libibverbs for each context,
 * however the program has found ibv_open_device: linked, or by dlsym and dlvsym of a library that it has loaded.
 *
 * The layouts are the public ones of libibverbs. struct verbs_context grows in front of struct ibv_context.
 */
#ifdef ALONE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define IS_OURS(fd) 1 /* the program finds no other devices */
#define IS_STOCK (getenv("DDKRUN_STOCK") != NULL)
#else
#define IS_OURS(fd) (lookup(fd) != NULL)
#define IS_STOCK (setting(STOCK) != NULL)
#endif

enum { OFF_QUERY_DEVICE_EX = -104, OFF_CREATE_QP_EX = -56 };
enum { MUTEX = sizeof(pthread_mutex_t) }; /* 40 bytes with x86-64, and 48 with arm64 */
enum { OFF_CREATE_CQ = 88, OFF_POLL_CQ = 96, OFF_CMD_FD = 264, OFF_ABI = 280 + MUTEX, CONTEXT_SIZE = OFF_ABI + 8 };
/* of struct ibv_cq_ex */
enum { OFF_START_POLL = 104 + MUTEX, OFF_NEXT_POLL = 112 + MUTEX, OFF_END_POLL = 120 + MUTEX };
enum { OFF_INLINE = 248 + MUTEX, OFF_INLINE_LIST = 256 + MUTEX };			     /* of struct ibv_qp_ex */
enum { OFF_COMP_MASK = 60, SEND_OPS = 64, OFF_SEND_OPS = 128 };		 /* of struct ibv_qp_init_attr_ex */
enum { OFF_CAPABILITIES = 280, ATTR_SIZE = 400 };			 /* of struct ibv_device_attr_ex */

#define AT(type, p, off) (*(type *)((char *)(p) + (off)))

typedef void *create_function(void *, void *);
typedef int start_function(void *cq, void *attr);
typedef int next_function(void *cq);
typedef void end_function(void *cq);

/* The functions of the library, which all our contexts have in common. */
static _Atomic(create_function *) real_create_cq, real_create_qp;
static _Atomic(start_function *) real_start;
static _Atomic(end_function *) real_end;

/*
 * Polling. A program that polls an empty queue keeps a processor from the daemon, which would fill the queue. The poll
 * function of a context is therefore replaced by one that yields the processor after an empty poll.
 */
typedef int poll_function(void *cq, int n, void *wc);
static _Atomic(poll_function *) real_poll; /* of the user library, which all our contexts have in common */

static int poll_and_yield(void *cq, int n, void *wc)
{
	int r = atomic_load_explicit(&real_poll, memory_order_relaxed)(cq, n, wc);
	if (r == 0)
		RAW(SYS_sched_yield);
	return r;
}

/*
 * Extended CQs. ibv_next_poll goes on to an entry that is not there yet, and ibv_end_poll, or another ibv_next_poll,
 * beyond it, so that the next completion is lost (rdma-core#1512); in versions before 59, both release the lock of the
 * queue (rdma-core#1617). ibv_next_poll is therefore an ibv_end_poll and an ibv_start_poll.
 */
enum { MAX_ENDED = 8 };

/*
 * The queues that this thread polls, and of which it has seen the end. They are found without a function of the dynamic
 * linker, since children of the program may have another one.
 */
#define OWN static __thread __attribute__((tls_model("initial-exec")))
OWN void *ended[MAX_ENDED];
OWN unsigned last_ended;

static int was_ended(void *cq)
{
	for (int i = 0; i < MAX_ENDED; i++)
		if (ended[i] == cq) {
			ended[i] = NULL;
			return 1;
		}
	return 0;
}

static int start_poll(void *cq, void *attr)
{
	was_ended(cq);
	int r = atomic_load_explicit(&real_start, memory_order_relaxed)(cq, attr);
	if (r == ENOENT)
		RAW(SYS_sched_yield); /* as in poll_and_yield */
	return r;
}

static void end_poll(void *cq)
{
	if (!was_ended(cq))
		atomic_load_explicit(&real_end, memory_order_relaxed)(cq);
}

static int next_poll(void *cq)
{
	uint64_t attr = 0;
	end_poll(cq);
	int r = atomic_load_explicit(&real_start, memory_order_relaxed)(cq, &attr);
	if (r)
		ended[last_ended++ % MAX_ENDED] = cq;
	return r;
}

static void *create_cq(void *context, void *attr)
{
	char *cq = atomic_load(&real_create_cq)(context, attr);
	if (!cq || AT(next_function *, cq, OFF_NEXT_POLL) == next_poll)
		return cq;
	atomic_store(&real_start, AT(start_function *, cq, OFF_START_POLL));
	atomic_store(&real_end, AT(end_function *, cq, OFF_END_POLL));
	AT(start_function *, cq, OFF_START_POLL) = start_poll;
	AT(next_function *, cq, OFF_NEXT_POLL) = next_poll;
	AT(end_function *, cq, OFF_END_POLL) = end_poll;
	return cq;
}

/*
 * ibv_wr_set_inline_data_list sends zero bytes, and writes beyond the entry of the queue (rdma-core#1751).
 * ibv_wr_set_inline_data does neither.
 */
struct inline_piece {
	void *addr;
	size_t size;
};

typedef void inline_function(void *qp, void *addr, size_t size);
typedef void inline_list_function(void *qp, size_t n, const struct inline_piece *list);

enum { MAX_INLINE = 64 << 10 }; /* more than a queue takes */

static void set_inline_list(void *qp, size_t n, const struct inline_piece *list)
{
	size_t total = 0;
	for (size_t i = 0; i < n && total <= MAX_INLINE; i++)
		total += list[i].size <= MAX_INLINE ? list[i].size : MAX_INLINE + 1;
	char *data = NULL, *p = NULL;
	if (total <= MAX_INLINE) {
		p = data = alloca(total + 1);
		for (size_t i = 0; i < n; i++)
			p = mempcpy(p, list[i].addr, list[i].size);
	}
	AT(inline_function *, qp, OFF_INLINE)(qp, data, total);
}

/*
 * Operations that a device may lack, by their bits in send_ops_flags, and the capabilities, one of which it has
 * otherwise. The library creates such a QP on each device, and all of its requests fail.
 */
static const struct {
	uint64_t operation, capabilities;
} optional[] = {{1 << 11 /* FLUSH */, 3ULL << 38}, {1 << 12 /* ATOMIC WRITE */, 1ULL << 40}};

typedef int query_function(void *context, const void *input, void *attr, size_t size);

/* lacks reports whether a device lacks one of some operations. */
static int lacks(void *context, uint64_t operations)
{
	uint64_t attr[ATTR_SIZE / sizeof(uint64_t)];
	for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
		if (!(operations & optional[i].operation))
			continue;
		memset(attr, 0, sizeof attr);
		query_function *query = AT(query_function *, context, OFF_QUERY_DEVICE_EX);
		if (query && !query(context, NULL, attr, sizeof attr) &&
		    !(AT(uint64_t, attr, OFF_CAPABILITIES) & optional[i].capabilities))
			return 1;
	}
	return 0;
}

static void *create_qp(void *context, void *attr)
{
	if (AT(uint32_t, attr, OFF_COMP_MASK) & SEND_OPS && lacks(context, AT(uint64_t, attr, OFF_SEND_OPS))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	char *qp = atomic_load(&real_create_qp)(context, attr);
	if (qp && AT(uint32_t, attr, OFF_COMP_MASK) & SEND_OPS)
		AT(inline_list_function *, qp, OFF_INLINE_LIST) = set_inline_list;
	return qp;
}

typedef void set_function(void *whole, void *const *ops);

/*
 * The provider's functions in driver.h of rdma-core, which has them in alphabetical order: create_cq_ex comes after
 * create_cq. Releases 25 to 65 have 66 to 93 of them. verbs_set_ops skips those that are NULL.
 */
enum { MIN_OPS = 64, MAX_OPS = 512 };

/* The fields of struct verbs_context in front of struct ibv_context, of which releases 25 to 65 have 40 to 46. */
enum { MAX_FIELDS = 80 }; /* both are longer than 80 fields */

/* mend replaces functions of the library in a context, which set has given those of ops. */
static void mend(void *whole, char *context, void *const *ops, set_function *set)
{
	void *changed[MAX_OPS] = {NULL};
	for (size_t i = 0; i < MIN_OPS - 1; i++)
		if (ops[i] && ops[i] == AT(void *, context, OFF_CREATE_CQ) && ops[i + 1]) {
			atomic_store(&real_create_cq, (create_function *)ops[i + 1]);
			changed[i + 1] = (void *)create_cq;
			set(whole, changed); /* libibverbs keeps this one for itself */
		}
	create_function **qp = &AT(create_function *, context, OFF_CREATE_QP_EX);
	if (*qp && *qp != create_qp) {
		atomic_store(&real_create_qp, *qp);
		*qp = create_qp;
	}
}

#ifdef ALONE
/*
 * Doorbells. The supervisor lets the program map the header of the memory that it shares with the adapter, and a table
 * of the bells of QPs (package ciddk/internal/rings, header.go). Programs that poll leave few processors for the
 * supervisor, which would have to answer each doorbell.
 */
enum { MAX_FILES = 1024, SHARE_BELLS = 0x6b01, HEADER = 64 << 10, TABLE = MAX_BELLS * sizeof(uint64_t) };

static _Atomic(char *) shared[MAX_FILES]; /* by descriptor: the header, and the table after it; never unmapped */

/* map_part maps a part of what a device file shares. */
static int map_part(int device, int part, char *to, size_t size)
{
	int fd = RAW(SYS_ioctl, device, SHARE_BELLS, part);
	if (fd < 0)
		return 0;
	long p = RAW(SYS_mmap, to, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, fd, 0);
	RAW(SYS_close, fd);
	return p > 0;
}

/* share_bells maps what a device file shares in place of what another one with its descriptor has shared. */
static void share_bells(int device)
{
	if (device < 0 || device >= MAX_FILES)
		return;
	int saved = errno;
	char *m = atomic_load(&shared[device]);
	int fixed = m ? MAP_FIXED : 0;
	m = (char *)RAW(SYS_mmap, m, HEADER + TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
	if (m != MAP_FAILED && map_part(device, 0, m, HEADER_SIZE) && map_part(device, 1, m + HEADER, TABLE))
		atomic_store(&shared[device], m);
	errno = saved;
}

/* is_rung reports whether a write is the command that starts a send queue, and has been executed. */
static int is_rung(int fd, const void *buf, size_t size)
{
	uint32_t handle;
	char *m = fd >= 0 && fd < MAX_FILES ? atomic_load(&shared[fd]) : NULL;
	if (!m || !is_doorbell(buf, size, &handle))
		return 0;
	uint64_t bell = atomic_load((_Atomic uint64_t *)(m + HEADER) + handle % MAX_BELLS);
	uint32_t count = bell; /* the index and 1, or 0 */
	return bell >> 32 == handle && count - 1 < MAX_BELLS && !atomic_load(mark(m, count - 1));
}

EXPORT ssize_t write(int fd, const void *buf, size_t size)
{
	return is_rung(fd, buf, size) ? (ssize_t)size : REAL(write)(fd, buf, size);
}
#else
#define share_bells(device)
#endif

/* hook replaces functions of a context, if the context is one of ours. */
static void hook(void *whole, char *context, void *const *ops, set_function *set)
{
	if (AT(uintptr_t, context, OFF_ABI) != UINTPTR_MAX || !IS_OURS(AT(int, context, OFF_CMD_FD)))
		return;
	poll_function **f = &AT(poll_function *, context, OFF_POLL_CQ);
	if (*f && *f != poll_and_yield) {
		atomic_store(&real_poll, *f);
		*f = poll_and_yield;
		share_bells(AT(int, context, OFF_CMD_FD));
	}
	if (!IS_STOCK)
		mend(whole, context, ops, set);
}

/* context_of returns the struct ibv_context of a struct verbs_context: it follows the size of both. */
static char *context_of(void *whole)
{
	for (size_t i = 0; i < MAX_FIELDS; i++)
		if (AT(size_t, whole, i * sizeof(size_t)) == (i + 1) * sizeof(size_t) + CONTEXT_SIZE)
			return (char *)whole + (i + 1) * sizeof(size_t);
	return NULL;
}

/*
 * set_function_of returns verbs_set_ops of the libibverbs that a provider uses, by which a library is found that a
 * plugin or a program has for itself. It stays loaded, since its functions are kept. A provider that is not known, since
 * its table is in no file, has the next one.
 */
static set_function *set_function_of(const char *provider)
{
	void *library = provider ? dlopen(provider, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	void *f = library ? dlsym(library, "verbs_set_ops") : NULL;
	return (set_function *)(f ? f : dlsym(RTLD_NEXT, "verbs_set_ops"));
}

/* This function of libibverbs exists only if the program has the library. */
EXPORT void verbs_set_ops(void *whole, void *const *ops);
EXPORT void verbs_set_ops(void *whole, void *const *ops)
{
	Dl_info provider = {0}, owner;
	set_function *set = set_function_of(dladdr(ops, &provider) ? provider.dli_fname : NULL);
	if (!set)
		return;
	set(whole, ops);
	char *context = context_of(whole);
	int is_default = dladdr((void *)set, &owner) && owner.dli_fbase == provider.dli_fbase;
	if (context && !is_default) /* libibverbs itself has set functions that fail, before the provider */
		hook(whole, context, ops, set);
}

#ifdef ALONE
/* The supervisor opens a directory of the tree for the program, but cannot change its working directory. */
EXPORT int chdir(const char *path);
EXPORT int chdir(const char *path)
{
	long fd = RAW(SYS_openat, AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? RAW(SYS_chdir, path) : -1;
	int r = RAW(SYS_fchdir, fd), saved = errno;
	RAW(SYS_close, fd);
	errno = saved;
	return r;
}
#endif
