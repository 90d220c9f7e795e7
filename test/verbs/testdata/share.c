/*
 * A verbs program that ddkrun --share-memory runs. It registers memory of many kinds, and checks for each whether it
 * was moved to a file, that nothing of its content was lost, and that RDMA reads and writes reach it.
 */
#include "loop.h"

enum { MANY = 300 };

/* is_moved reports whether the byte at an address is in a file that the library has made. */
static int is_moved(const void *at)
{
	char line[8192];
	int found = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	CHECK(f);
	while (fgets(line, sizeof line, f)) {
		unsigned long start, end;
		CHECK(sscanf(line, "%lx-%lx", &start, &end) == 2);
		if (start <= (uintptr_t)at && (uintptr_t)at < end)
			found = strstr(line, "rw-s") && strstr(line, "/memfd:ddkrun ");
	}
	fclose(f);
	return found;
}

/* kinds registers memory that is moved, and memory that is not. */
static void kinds(int on)
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

	p = map(2 * PAGE);
	fill(p, 2 * PAGE, 9);
	CHECK(!mprotect(p, 2 * PAGE, PROT_READ));
	CHECK(m = ibv_reg_mr(pd, p, 2 * PAGE, IBV_ACCESS_REMOTE_READ));
	CHECK(!is_moved(p) && transfer(IBV_WR_RDMA_READ, target, target_mr, m, PAGE) == IBV_WC_SUCCESS);
	CHECK(has(target, PAGE, 9));
	CHECK(!ibv_dereg_mr(m) && !munmap(p, 2 * PAGE));
	errno = 0;
	CHECK(!reg(p, 2 * PAGE) && errno == EFAULT);
}

/* again registers an address range that is mapped anew each time. No descriptors remain. */
static void again(int on)
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

/* forks checks that a child has the memory as it was, and that no process sees what the other writes. */
static void forks(void)
{
	char *p = map(4 * PAGE), c;
	struct ibv_mr *m;
	int to[2], from[2], status;
	CHECK(m = reg(p, 4 * PAGE));
	CHECK(!munmap(p + PAGE, PAGE));
	CHECK(!mprotect(p + 3 * PAGE, PAGE, PROT_READ));
	fill(p, PAGE, 1);
	fill(p + 2 * PAGE, PAGE, 2);
	CHECK(!pipe(to) && !pipe(from));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(read(to[0], &c, 1) == 1); /* the parent has written */
		CHECK(!is_moved(p) && has(p, PAGE, 1) && has(p + 2 * PAGE, PAGE, 2) && p[3 * PAGE] == 0);
		fill(p, PAGE, 3);
		CHECK(write(from[1], "", 1) == 1);
		CHECK(read(to[0], &c, 1) == 1); /* the parent has looked */
		CHECK(has(p, PAGE, 3));
		_exit(0);
	}
	fill(p, PAGE, 4);
	CHECK(write(to[1], "", 1) == 1 && read(from[0], &c, 1) == 1);
	CHECK(has(p, PAGE, 4));
	works(p, m, PAGE, 5);
	CHECK(write(to[1], "", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(!ibv_dereg_mr(m));
}

/* calls checks the calls that differ for shared mappings. */
static void calls(int on)
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
	if (on) {
		errno = 0;
		CHECK(mremap(p, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
		works(p, m, PAGE, 4);
	}
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
}

int main(int argc, char **argv)
{
	int on = argc > 1 && !strcmp(argv[1], "shared");
	open_device();
	connect_loop();
	CHECK(!is_moved(source) && !is_moved(target));
	kinds(on);
	again(on);
	forks();
	calls(on);
	threads();
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(source_mr) && !ibv_dereg_mr(target_mr));
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	puts("success");
	return 0;
}
