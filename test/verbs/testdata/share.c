/*
 * A verbs program that registers memory of many kinds, and checks for each whether it was moved to a file, that nothing
 * of its content was lost, that RDMA reads and writes reach it, and that calls about memory work as on other memory.
 */
#include "share.h"
#include <malloc.h>
#include <rdma/ib_user_verbs.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { MANY = 300 };

/* kinds registers memory that is moved, and memory that is not. */
static void kinds(void)
{
	struct ibv_mr *m;
	char *p = map(6 * PAGE);
	fill(p, 6 * PAGE, 1);
	CHECK(m = reg(p + PAGE, 4 * PAGE)); /* its neighbours stay */
	CHECK(is_moved(p + PAGE) == on && is_moved(p + 5 * PAGE - 1) == on && !is_moved(p) && !is_moved(p + 5 * PAGE));
	CHECK(has(p, 6 * PAGE, 1));
	works(p + PAGE, m, 4 * PAGE, 2);
	struct ibv_mr *part, *across;
	CHECK(part = reg(p + 2 * PAGE + 100, 200)); /* a part of memory that was moved */
	works(p + 2 * PAGE + 100, part, 200, 3);
	CHECK(across = reg(p, 6 * PAGE)); /* two kinds of memory: copied */
	CHECK(!is_moved(p));
	works(p, across, 6 * PAGE, 4);
	CHECK(!ibv_dereg_mr(m) && !ibv_dereg_mr(across));
	works(p + 2 * PAGE + 100, part, 200, 5);
	CHECK(!ibv_dereg_mr(part));

	char *heap;
	CHECK(!posix_memalign((void **)&heap, PAGE, 2 * PAGE));
	fill(heap, 2 * PAGE, 6);
	CHECK(m = reg(heap, 2 * PAGE));
	CHECK(is_moved(heap) == on && is_moved(heap + 2 * PAGE - 1) == on && !is_moved(heap - 1));
	CHECK(has(heap, 2 * PAGE, 6));
	works(heap, m, 2 * PAGE, 7);
	CHECK(!ibv_dereg_mr(m));
	free(heap);

	_Alignas(PAGE) char stack[2 * PAGE];
	CHECK(m = reg(stack, sizeof stack));
	CHECK(!is_moved(stack));
	works(stack, m, sizeof stack, 8);
	CHECK(!ibv_dereg_mr(m));
	CHECK(!madvise(stack, sizeof stack, MADV_DONTFORK)); /* the system's list does not call it a stack then */
	CHECK((m = reg(stack, sizeof stack)) && !is_moved(stack));
	works(stack, m, sizeof stack, 8);
	CHECK(!ibv_dereg_mr(m) && !madvise(stack, sizeof stack, MADV_DOFORK));

	p = map(2 * PAGE);
	fill(p, 2 * PAGE, 9);
	CHECK(!mprotect(p, 2 * PAGE, PROT_READ));
	CHECK(m = ibv_reg_mr(pd, p, 2 * PAGE, IBV_ACCESS_REMOTE_READ));
	CHECK(!is_moved(p) && transfer(IBV_WR_RDMA_READ, target, target_mr, m, PAGE) == IBV_WC_SUCCESS);
	CHECK(has(target, PAGE, 9));
	CHECK(!ibv_dereg_mr(m) && !munmap(p, 2 * PAGE));
	errno = 0;
	CHECK(!reg(p, 2 * PAGE) && errno == (getenv("RDMAV_FORK_SAFE") ? ENOMEM : EFAULT));
}

/* on_stack registers memory of the mapping that has its stack. */
static void *own_stack;

static void on_stack(void)
{
	struct ibv_mr *m;
	CHECK(m = reg(own_stack, PAGE));
	CHECK(!is_moved(own_stack));
	works(own_stack, m, PAGE, 1);
	CHECK(!ibv_dereg_mr(m));
}

/* routines runs a function on a stack that the program has allocated. */
static void routines(void)
{
	enum { SIZE = 256 << 10 };
	ucontext_t own, other;
	own_stack = map(SIZE);
	CHECK(!getcontext(&other));
	other.uc_stack = (stack_t){.ss_sp = own_stack, .ss_size = SIZE};
	other.uc_link = &own;
	makecontext(&other, on_stack, 0);
	CHECK(!swapcontext(&own, &other) && !munmap(own_stack, SIZE));
}

/* again registers an address range that is mapped anew each time. No descriptors remain. */
static void again(void)
{
	char *p = map(2 * PAGE);
	for (int i = 0; i < MANY; i++) {
		CHECK(mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
		fill(p, 2 * PAGE, i);
		struct ibv_mr *m = reg(p, 2 * PAGE);
		CHECK(m && is_moved(p) == on && has(p, 2 * PAGE, i));
		works(p, m, PAGE, i);
		CHECK(!ibv_dereg_mr(m));
	}
	int fd = dup(0);
	CHECK(fd >= 0 && fd < 64 && !close(fd));
	CHECK(!munmap(p, 2 * PAGE));
}

/* calls checks the calls that differ for shared mappings. */
static void calls(void)
{
	char *p = map(4 * PAGE);
	struct ibv_mr *m;
	CHECK(m = reg(p, 4 * PAGE));
	fill(p, 4 * PAGE, 1);
	CHECK(!madvise(p + PAGE, PAGE, MADV_DONTNEED));
	for (int i = 0; i < PAGE; i++)
		CHECK(p[PAGE + i] == 0);
	CHECK(has(p, PAGE, 1));
	works(p, m, PAGE, 2);
	CHECK(!madvise(p + 2 * PAGE, PAGE, MADV_FREE));
	fill(p + 2 * PAGE, PAGE, 3);
	CHECK(has(p + 2 * PAGE, PAGE, 3));
	CHECK(!syscall(SYS_madvise, p, PAGE, MADV_DONTNEED) && is_zero(p, PAGE));
	CHECK(!mprotect(p + 3 * PAGE, PAGE, PROT_READ) && !madvise(p + 3 * PAGE, PAGE, MADV_DONTNEED));
	CHECK(is_zero(p + 3 * PAGE, PAGE));
	CHECK(mremap(p, 4 * PAGE, 2 * PAGE, 0) == p);
	CHECK(!ibv_dereg_mr(m));
	char *other = map(2 * PAGE);
	other = mremap(other, 2 * PAGE, 8 * PAGE, MREMAP_MAYMOVE); /* memory that was never moved */
	CHECK(other != MAP_FAILED);
	fill(other, 8 * PAGE, 5);
}

/* A thread that writes to a page all the time, counting up. */
static _Atomic int stop;

static void *count(void *page)
{
	volatile uint64_t *n = page;
	while (!stop)
		++*n;
	return NULL;
}

/* threads registers memory to which another thread writes. Nothing that it writes is lost, because nothing is moved. */
static void threads(void)
{
	char *p = map(2 * PAGE);
	pthread_t thread;
	struct ibv_mr *m;
	CHECK(!pthread_create(&thread, NULL, count, p + PAGE));
	for (int i = 0; i < 10; i++) {
		CHECK(m = reg(p, 2 * PAGE));
		CHECK(!is_moved(p));
		works(p, m, PAGE, i);
		CHECK(!ibv_dereg_mr(m));
	}
	stop = 1;
	CHECK(!pthread_join(thread, NULL));
	wait_alone();
}

/* grows changes the size and the place of memory of which a part was moved. */
static void grows(void)
{
	const int may_move = MREMAP_MAYMOVE;
	char *place = map(64 * PAGE), *p = place + 16 * PAGE, *q;
	struct ibv_mr *m;
	CHECK(!munmap(place + 24 * PAGE, 8 * PAGE)); /* there is room for growth, but not more */
	CHECK(m = reg(p + PAGE, 4 * PAGE));
	CHECK(is_moved(p + PAGE) == on);
	fill(p, 8 * PAGE, 1);
	errno = 0;
	CHECK(mremap(p, 8 * PAGE, 12 * PAGE, 0) == p || !on); /* a private mapping and its neighbour are one */
	p = on ? p : mremap(p, 8 * PAGE, 12 * PAGE, may_move);
	CHECK(has(p, 8 * PAGE, 1) && is_zero(p + 8 * PAGE, 4 * PAGE));
	p[8 * PAGE] = 1; /* it may be written */
	p[8 * PAGE] = 0;
	q = mremap(p, 12 * PAGE, 128 * PAGE, 0);
	CHECK(q == MAP_FAILED && errno == ENOMEM);
	q = mremap(p, 12 * PAGE, 128 * PAGE, may_move);
	CHECK(q != MAP_FAILED && q != p && has(q, 8 * PAGE, 1) && is_zero(q + 8 * PAGE, 120 * PAGE));
	CHECK(is_moved(q + PAGE) == on && !is_moved(q));
	CHECK(!madvise(q + 2 * PAGE, PAGE, MADV_DONTNEED) && is_zero(q + 2 * PAGE, PAGE));
	fill(q, 8 * PAGE, 2);
	CHECK(mremap(q, 8 * PAGE, 8 * PAGE, may_move | MREMAP_FIXED, place + 16 * PAGE) == place + 16 * PAGE);
	p = place + 16 * PAGE;
	CHECK(has(p, 8 * PAGE, 2) && is_moved(p + PAGE) == on);
	works(p + PAGE, m, 4 * PAGE, 3); /* where it was registered */
	errno = 0;
	CHECK(mremap(p, 8 * PAGE, 16 * PAGE, may_move | MREMAP_FIXED, p + PAGE) == MAP_FAILED && errno == EINVAL);
	CHECK(!ibv_dereg_mr(m) && !munmap(p, 8 * PAGE));
}

/* allocate returns whole pages of the C library, which were registered and are not any more. */
static char *allocate(size_t size, int seed)
{
	char *p;
	struct ibv_mr *m;
	CHECK(!posix_memalign((void **)&p, PAGE, size));
	fill(p, size, seed);
	CHECK(m = reg(p, size));
	CHECK(is_moved(p) == on && has(p, size, seed));
	works(p, m, PAGE, seed);
	CHECK(!ibv_dereg_mr(m));
	fill(p, size, seed);
	return p;
}

/* A thread allocates and frees memory of its own arena. */
static void *arena(void *kept)
{
	enum { N = 16 };
	char *p[N];
	for (int i = 0; i < N; i++)
		CHECK(!posix_memalign((void **)&p[i], PAGE, 16 * PAGE));
	*(char **)kept = p[N - 1];
	for (int i = 0; i < N - 1; i++)
		free(p[i]);
	return NULL;
}

/* In a thread, the allocator uses the arena of the one that has ended. */
static void *arena_again(void *kept)
{
	free(kept);
	for (int i = 1; i < 64; i++) {
		char *p = calloc(1, i * PAGE / 2);
		CHECK(p && is_zero(p, i * PAGE / 2));
		memset(p, 1, i * PAGE / 2);
		free(p);
	}
	return NULL;
}

/* heaps uses the C library's allocator on memory that was registered. It calls the kernel without our functions. */
static void heaps(void)
{
	static const size_t sizes[] = {2 * PAGE, 24 * PAGE, 300 * PAGE}; /* on the heap, and mappings of their own */
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const size_t n = sizes[i];
		char *p = realloc(allocate(n, 1), 4 * n);
		CHECK(p && has(p, n, 1));
		fill(p, 4 * n, 2);
		CHECK((p = realloc(p, 40 * n)) && has(p, 4 * n, 2));
		free(p);
		CHECK((p = realloc(allocate(n, 3), n / 2)) && has(p, n / 2, 3));
		CHECK((p = realloc(p, 100)) && has(p, 100, 3));
		free(p);
		for (int k = 0; k < 8; k++) {
			free(allocate(n, k));
			CHECK((p = calloc(1, n)) && is_zero(p, n));
			memset(p, 1, n);
			free(p);
			malloc_trim(0);
			CHECK((p = calloc(n, 3)) && is_zero(p, 3 * n));
			free(p);
		}
	}
	pthread_t thread;
	char *kept;
	CHECK(!pthread_create(&thread, NULL, arena, &kept) && !pthread_join(thread, NULL));
	wait_alone();
	struct ibv_mr *m;
	CHECK(m = reg(kept, 16 * PAGE));
	CHECK(is_moved(kept) == on);
	fill(kept, 16 * PAGE, 1);
	CHECK(!ibv_dereg_mr(m));
	CHECK(!pthread_create(&thread, NULL, arena_again, kept) && !pthread_join(thread, NULL));
	wait_alone();
	malloc_trim(0);
}

/* A thread fills a page of its own. */
static void *fill_page(void *page)
{
	for (int i = 0; i < 100; i++)
		fill(page, PAGE, i);
	return NULL;
}

/* change moves a region to other memory. The user library of Soft-RoCE has no function for it. */
static void change(struct ibv_mr *m, char *p, size_t size)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr head;
		struct ib_uverbs_rereg_mr body;
	} q = {{IB_USER_VERBS_CMD_REREG_MR, sizeof q / 4, sizeof resp / 4},
	       {.response = (uintptr_t)&resp,
		.mr_handle = m->handle,
		.flags = IBV_REREG_MR_CHANGE_TRANSLATION,
		.start = (uintptr_t)p,
		.length = size,
		.hca_va = (uintptr_t)p}};
	CHECK(write(context->cmd_fd, &q, sizeof q) == sizeof q);
	m->addr = p;
	m->length = size;
	m->lkey = resp.lkey;
	m->rkey = resp.rkey;
}

/* later starts threads after a registration, and registers the memory again, while they run and afterwards. */
static void later(void)
{
	enum { N = 4 };
	char *p = map(N * PAGE);
	struct ibv_mr *m, *other;
	pthread_t thread[N];
	CHECK(m = reg(p, N * PAGE));
	for (int i = 1; i < N; i++)
		CHECK(!pthread_create(&thread[i], NULL, fill_page, p + i * PAGE));
	works(p, m, PAGE, 1);
	CHECK(other = reg(p + 100, PAGE)); /* a part of what was moved is shared, too */
	works(p + 100, other, PAGE - 100, 2);
	for (int i = 1; i < N; i++)
		CHECK(!pthread_join(thread[i], NULL) && has(p + i * PAGE, PAGE, 99));
	wait_alone();
	CHECK(!ibv_dereg_mr(other) && !ibv_dereg_mr(m));
	for (int i = 0; i < 3; i++) {
		CHECK((m = reg(p, N * PAGE)) && has(p + PAGE, PAGE, 99));
		works(p, m, PAGE, i);
		CHECK(!ibv_dereg_mr(m));
	}
	CHECK((m = reg(p, N * PAGE)) && is_moved(p) == on);
	char *q = map(2 * PAGE);
	change(m, q, 2 * PAGE);
	works(q, m, PAGE, 5);
	CHECK((other = reg(q, 2 * PAGE)) && !is_moved(q)); /* the daemon copies to it */
	works(q, other, PAGE, 6);
	works(q, m, PAGE, 7);
	CHECK(!ibv_dereg_mr(other) && !ibv_dereg_mr(m));
	CHECK((m = reg(q, 2 * PAGE)) && is_moved(q) == on);
	works(q, m, PAGE, 8);
	CHECK(!ibv_dereg_mr(m));
}

/* twice registers memory that the daemon copies, as a part of whole pages. It is not moved while that lasts. */
static void twice(void)
{
	char *p = map(4 * PAGE);
	struct ibv_mr *part, *whole;
	CHECK(part = reg(p + PAGE + 8, 16));
	CHECK((whole = reg(p, 4 * PAGE)) && !is_moved(p) && !is_moved(p + PAGE));
	works(p, whole, PAGE, 1);
	works(p + PAGE + 8, part, 16, 2);
	CHECK(!ibv_dereg_mr(whole) && !ibv_dereg_mr(part));
	CHECK((whole = reg(p, 4 * PAGE)) && is_moved(p) == on);
	works(p, whole, PAGE, 3);
	CHECK(!ibv_dereg_mr(whole));
	struct ibv_context *device = context; /* a region that ends with its device */
	struct ibv_pd *own = pd;
	char *q = map(PAGE);
	open_device();
	CHECK(reg(q + 8, 16));
	CHECK((whole = ibv_reg_mr(own, q, PAGE, IBV_ACCESS_LOCAL_WRITE)) && !is_moved(q));
	CHECK(!ibv_dereg_mr(whole) && !close(context->cmd_fd));
	CHECK((whole = ibv_reg_mr(own, q, PAGE, IBV_ACCESS_LOCAL_WRITE)) && is_moved(q) == on);
	CHECK(!ibv_dereg_mr(whole));
	context = device;
	pd = own;
}

/* special registers memory with properties that a file would not have. */
static void special(void)
{
	static const int advice[] = {MADV_HUGEPAGE, MADV_DONTDUMP, MADV_WIPEONFORK};
	struct ibv_mr *m;
	for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) {
		char *p = map(4 * PAGE);
		if (madvise(p + PAGE, PAGE, advice[i])) {
			CHECK(errno == EINVAL); /* the kernel has no such pages */
			continue;
		}
		CHECK((m = reg(p, 2 * PAGE)) && is_moved(p) == (on && !is_auto));
		works(p, m, PAGE, 1);
		CHECK(!ibv_dereg_mr(m));
		CHECK((m = reg(p + 2 * PAGE, PAGE)) && is_moved(p + 2 * PAGE) == on);
		CHECK(!ibv_dereg_mr(m));
	}
	char *p = map(2 * PAGE), *locked = map(PAGE);
	if (mlock(locked, PAGE) == 0) {
		CHECK((m = reg(p, PAGE)) && is_moved(p) == (on && !is_auto));
		CHECK(!ibv_dereg_mr(m) && !munlock(locked, PAGE));
	}
	CHECK((m = reg(p + PAGE, PAGE)) && is_moved(p + PAGE) == on);
	CHECK(!ibv_dereg_mr(m));
	unsigned long queue = 0;
	p = map(PAGE);
	if (syscall(SYS_io_setup, 8, &queue) == 0) {
		CHECK((m = reg(p, PAGE)) && is_moved(p) == (on && !is_auto));
		CHECK(!ibv_dereg_mr(m) && !syscall(SYS_io_destroy, queue));
	}
	p = map(PAGE);
	CHECK((m = reg(p, PAGE)) && is_moved(p) == on);
	CHECK(!ibv_dereg_mr(m));
}

/* resident returns how many pages are in memory. */
static size_t resident(char *p, size_t pages)
{
	static unsigned char in[1 << 15];
	size_t n = 0;
	CHECK(pages <= sizeof in && !mincore(p, pages * PAGE, in));
	for (size_t i = 0; i < pages; i++)
		n += in[i] & 1;
	return n;
}

/* bounds registers much memory, all pages of which are there afterwards. */
static void bounds(void)
{
	enum { HALF = 8 << 10, MOST = 2 * HALF }; /* pages: AUTO_BYTES */
	struct ibv_mr *m;
	char *p = map((size_t)(MOST + 1) * PAGE);
	CHECK((m = reg(p, (size_t)(MOST + 1) * PAGE)) && is_moved(p) == (on && !is_auto));
	CHECK(!ibv_dereg_mr(m) && !munmap(p, (size_t)(MOST + 1) * PAGE));
	p = map((size_t)HALF * PAGE);
	fill(p + 7 * PAGE, 2 * PAGE, 1);
	fill(p + 5000 * PAGE, PAGE, 2);
	CHECK((m = reg(p, (size_t)HALF * PAGE)) && is_moved(p) == on);
	CHECK(resident(p, HALF) == HALF);
	CHECK(has(p + 7 * PAGE, 2 * PAGE, 1) && has(p + 5000 * PAGE, PAGE, 2) && is_zero(p, 7 * PAGE));
	char *q = map((size_t)MOST * PAGE);
	struct ibv_mr *more;
	CHECK((more = reg(q, (size_t)MOST * PAGE)) && is_moved(q) == (on && !is_auto)); /* together, it is too much */
	works(q, more, PAGE, 3);
	CHECK(!ibv_dereg_mr(more) && !ibv_dereg_mr(m) && !munmap(p, (size_t)HALF * PAGE));
	CHECK(!munmap(q, (size_t)MOST * PAGE));
	p = map((size_t)HALF * PAGE);
	CHECK((m = reg(p, (size_t)HALF * PAGE)) && is_moved(p) == on);
	CHECK(!ibv_dereg_mr(m) && !munmap(p, (size_t)HALF * PAGE));
}

static int lowest(void)
{
	int fd = dup(0);
	CHECK(fd >= 0 && !close(fd));
	return fd;
}

/* limits registers memory where the process may have few descriptors, or no files. It is copied then. */
static void limits(void)
{
	enum { N = 48 };
	struct rlimit few = {24, 24}, none = {0, 0}, old, l;
	struct ibv_mr *m[N];
	char *p = map(2 * N * PAGE);
	int before = lowest(), moved = 0;
	CHECK(before < 20 && !getrlimit(RLIMIT_NOFILE, &old));
	few.rlim_max = old.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	for (int i = 0; i < N; i++) {
		CHECK(m[i] = reg(p + 2 * i * PAGE, PAGE));
		moved += is_moved(p + 2 * i * PAGE);
		works(p + 2 * i * PAGE, m[i], PAGE, i);
	}
	CHECK(moved < N && (moved > 0) == on);
	CHECK(!setrlimit(RLIMIT_NOFILE, &old) && lowest() == before);
	for (int i = 0; i < N; i++)
		CHECK(!ibv_dereg_mr(m[i]));
	CHECK(!munmap(p, 2 * N * PAGE) && !getrlimit(RLIMIT_FSIZE, &l));
	none.rlim_max = l.rlim_max;
	p = map(PAGE);
	CHECK(!setrlimit(RLIMIT_FSIZE, &none));
	CHECK((m[0] = reg(p, PAGE)) && !is_moved(p));
	works(p, m[0], PAGE, 1);
	CHECK(!ibv_dereg_mr(m[0]));
	if (l.rlim_cur == l.rlim_max)
		CHECK(!setrlimit(RLIMIT_FSIZE, &l));
	CHECK((m[0] = reg(p, PAGE)) && is_moved(p) == on && lowest() == before);
	CHECK(!ibv_dereg_mr(m[0]));
}

int main(int argc, char **argv)
{
	set_choice(argc, argv);
	open_device();
	connect_loop();
	CHECK(!is_moved(source) && !is_moved(target));
	kinds();
	routines();
	again();
	calls();
	grows();
	threads();
	heaps();
	later();
	twice();
	special();
	bounds();
	limits();
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(source_mr) && !ibv_dereg_mr(target_mr));
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	puts("success");
	return 0;
}
