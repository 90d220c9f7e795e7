/*
 * Two QPs whose handles are equal modulo 16384 transfer in turns, whichever of them was made, was used or is destroyed
 * last. Objects of all kinds have handles. With the argument "descriptors", the program then uses the device by a
 * descriptor with a large number. With "table", it checks that it has mapped a table of bells, and works with device
 * files that have the number of one that it has closed.
 */
#include "loop.h"
#include <sys/resource.h>

enum { MODULUS = 16384, NUMBER = 70000 };

static char *memory;
static struct ibv_mr *mr;

static struct ibv_qp *connect_another(void)
{
	connect_loop();
	return qp;
}

/* work transfers with a QP. */
static void work(struct ibv_qp *of, int seed)
{
	qp = of;
	cq = of->send_cq;
	works(memory, mr, PAGE, seed);
}

/* has_table reports whether the program has mapped a table of bells. */
static int has_table(void)
{
	char line[512];
	unsigned long from, to;
	int is_found = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	CHECK(f);
	while (fgets(line, sizeof line, f))
		if (strstr(line, "/memfd:ddkrun ") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			is_found |= to - from == MODULUS * sizeof(uint64_t);
	fclose(f);
	return is_found;
}

/* reopen works with another context, whose file has the number of the former one. */
static void reopen(int seed)
{
	int number = context->cmd_fd;
	CHECK(!ibv_close_device(context));
	open_device();
	CHECK(context->cmd_fd == number && has_table());
	CHECK(mr = reg(memory, PAGE));
	work(connect_another(), seed);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	open_device();
	memory = map(PAGE);
	CHECK(mr = reg(memory, PAGE));
	struct ibv_qp *first = connect_another();
	work(first, 1);
	for (uint32_t last = 0; last < first->handle + MODULUS - 2;) { /* a CQ and the QP follow */
		struct ibv_pd *p = ibv_alloc_pd(context);
		CHECK(p);
		last = p->handle;
		CHECK(!ibv_dealloc_pd(p));
	}
	struct ibv_qp *second = connect_another();
	CHECK(second->handle % MODULUS == first->handle % MODULUS);
	for (int i = 2; i < 6; i += 2) {
		work(first, i);
		work(second, i + 1);
	}
	CHECK(!ibv_destroy_qp(second));
	work(first, 7);
	struct ibv_qp *third = connect_another();
	work(third, 8);
	CHECK(!ibv_destroy_qp(first));
	work(third, 9);
	struct rlimit l;
	if (!strcmp(how, "descriptors") && !getrlimit(RLIMIT_NOFILE, &l) && l.rlim_max > NUMBER) {
		l.rlim_cur = NUMBER + 1;
		int old = context->cmd_fd;
		CHECK(!setrlimit(RLIMIT_NOFILE, &l) && dup2(old, NUMBER) == NUMBER && !close(old));
		context->cmd_fd = NUMBER;
		work(connect_another(), 10);
	}
	if (!strcmp(how, "table")) {
		CHECK(has_table());
		for (int i = 11; i < 16; i++)
			reopen(i);
	}
	puts("success");
	return 0;
}
