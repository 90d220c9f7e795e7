/*
 * A verbs program whose memory the daemon cannot reach. A thread of the library that ddkrun preloads copies it. The
 * program checks that transfers reach memory of many kinds, that wrong memory is rejected, and that it notices nothing
 * else of the thread. With the argument "protected", it protects its memory.
 */
#include "loop.h"
#include <fcntl.h>
#include <sys/prctl.h>

enum { LARGE = 300 << 10, THREADS = 8 };

/* threads returns how many threads the process has. */
static int threads(void)
{
	char line[256];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "r");
	CHECK(f);
	while (fgets(line, sizeof line, f))
		sscanf(line, "Threads: %d", &n);
	fclose(f);
	return n;
}

/* kinds registers memory of several kinds. */
static void kinds(void)
{
	struct ibv_mr *m;
	char *p = map(4 * PAGE);
	CHECK(m = reg(p + 100, 3 * PAGE));
	works(p + 100, m, PAGE, 1);
	CHECK(!ibv_dereg_mr(m));
	CHECK(mprotect(p, 4 * PAGE, PROT_READ) == 0);
	CHECK(m = ibv_reg_mr(pd, p, PAGE, IBV_ACCESS_REMOTE_READ));
	CHECK(transfer(IBV_WR_RDMA_READ, target, target_mr, m, PAGE) == IBV_WC_SUCCESS);
	CHECK(!memcmp(target, p, PAGE) && !ibv_dereg_mr(m));
	CHECK(!reg(p, PAGE) && errno == EFAULT); /* it may not be written to */
	CHECK(munmap(p + 2 * PAGE, PAGE) == 0);
	CHECK(!ibv_reg_mr(pd, p, 4 * PAGE, IBV_ACCESS_REMOTE_READ) && errno == EFAULT); /* a page is missing */
	CHECK(!ibv_reg_mr(pd, p + 2 * PAGE, 1, IBV_ACCESS_REMOTE_READ) && errno == EFAULT);
	CHECK(!ibv_reg_mr(pd, (void *)-4096l, 8192, IBV_ACCESS_REMOTE_READ) && errno);

	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED && (m = reg(p, PAGE)));
	works(p, m, PAGE, 2);
	CHECK(!ibv_dereg_mr(m));

	char *from = malloc(LARGE), *to = malloc(LARGE); /* more than one message */
	struct ibv_mr *a, *b;
	CHECK(from && to && (a = reg(from, LARGE)) && (b = reg(to, LARGE)));
	fill(from, LARGE, 3);
	CHECK(transfer(IBV_WR_RDMA_WRITE, from, a, b, LARGE) == IBV_WC_SUCCESS && has(to, LARGE, 3));
	fill(to, LARGE, 4);
	CHECK(transfer(IBV_WR_RDMA_READ, from, a, b, LARGE) == IBV_WC_SUCCESS && has(from, LARGE, 4));
	CHECK(!ibv_dereg_mr(a) && !ibv_dereg_mr(b));
}

/* change executes the command that changes a region. The user library has no function for it. */
static int change(struct ibv_mr *m, uint32_t flags, void *addr, size_t size, uint32_t access)
{
	uint32_t reply[2];
	struct {
		uint32_t command;
		uint16_t in_words, out_words;
		uint64_t response;
		uint32_t handle, flags;
		uint64_t start, length, hca_va;
		uint32_t pd, access;
	} q = {11, sizeof q / 4, sizeof reply / 4, (uintptr_t)reply, m->handle, flags, (uintptr_t)addr, size, (uintptr_t)addr,
	       pd->handle, access};
	if (write(context->cmd_fd, &q, sizeof q) != sizeof q)
		return -1;
	m->lkey = reply[0];
	m->rkey = reply[1];
	if (addr)
		m->addr = addr;
	return 0;
}

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* changed changes the memory and the rights of a region. */
static void changed(void)
{
	char *p = map(2 * PAGE), *q = map(PAGE);
	struct ibv_mr *m = reg(p, PAGE);
	CHECK(m);
	works(p, m, PAGE, 1);
	CHECK(!change(m, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, q, PAGE, ALL));
	works(q, m, PAGE, 2);
	CHECK(has(p, PAGE, 3)); /* as the last call of works left it */
	CHECK(change(m, IBV_REREG_MR_CHANGE_TRANSLATION, (void *)16, PAGE, 0) && errno == EFAULT);
	CHECK(!change(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, IBV_ACCESS_REMOTE_READ));
	fill(q, PAGE, 5);
	CHECK(transfer(IBV_WR_RDMA_READ, target, target_mr, m, PAGE) == IBV_WC_SUCCESS && has(target, PAGE, 5));
	CHECK(!change(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, ALL));
	works(q, m, PAGE, 6);
	CHECK(!ibv_dereg_mr(m));
}

static void *register_some(void *arg)
{
	char *p = malloc(PAGE);
	for (int i = 0; i < 50; i++) {
		struct ibv_mr *m = reg(p, PAGE);
		CHECK(m && !ibv_dereg_mr(m));
	}
	free(p);
	return arg;
}

/* concurrent registers memory in several threads. They are the first to do so. */
static void concurrent(void)
{
	pthread_t t[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, register_some, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(t[i], NULL));
}

/* forks has children that use what they have of the parent, and end. */
static void forks(void)
{
	char *p = map(PAGE);
	struct ibv_mr *m = reg(p, PAGE);
	int status;
	CHECK(m);
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			CHECK(threads() == 1);
			CHECK(!reg(p, PAGE)); /* its memory is another process's */
			_exit(7);
		}
		works(p, m, PAGE, i);
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	CHECK(!ibv_dereg_mr(m));
}

/* gone protects memory that is registered. The transfer fails, and the program goes on. */
static void gone(void)
{
	char *p = map(PAGE);
	struct ibv_mr *m = reg(p, PAGE);
	CHECK(m && mprotect(p, PAGE, PROT_NONE) == 0);
	CHECK(transfer(IBV_WR_RDMA_WRITE, source, source_mr, m, 100) != IBV_WC_SUCCESS);
}

int main(int argc, char **argv)
{
	int pipes[2];
	char b;
	if (argc > 1 && !strcmp(argv[1], "protected"))
		CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	CHECK(pipe(pipes) == 0 && threads() == 1);
	open_device();
	concurrent();
	CHECK(threads() == 2);
	connect_loop();
	CHECK(close(pipes[1]) == 0 && read(pipes[0], &b, 1) == 0); /* the thread does not have it */
	kinds();
	changed();
	forks();
	gone();
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
	puts("success");
	return 0;
}
