/* A program for sanitizers: threads register memory, descriptors are closed by close_range, and devices are opened
 * again. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static struct ibv_context *open_first(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	check(list && n > 0, "ibv_get_device_list");
	struct ibv_context *c = ibv_open_device(list[0]);
	check(c != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	return c;
}

static void *registers(void *pd)
{
	char *b = malloc(4096);
	for (int i = 0; i < 50; i++) {
		struct ibv_mr *m = ibv_reg_mr(pd, b, 4096, IBV_ACCESS_LOCAL_WRITE);
		check(m && !ibv_dereg_mr(m), "ibv_reg_mr");
	}
	free(b);
	return NULL;
}

int main(void)
{
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	check(pd != NULL, "ibv_alloc_pd");
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		check(!pthread_create(&t[i], NULL, registers, pd), "pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	struct ibv_cq *cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	struct ibv_wc wc;
	check(cq && ibv_poll_cq(cq, 1, &wc) == 0 && !ibv_destroy_cq(cq), "ibv_create_cq");
	check(!ibv_dealloc_pd(pd) && !ibv_close_device(c), "ibv_close_device");
	for (int i = 0; i < 3; i++)
		ibv_close_device(open_first());
	open_first(); /* close_range closes it, without the library */
	check(syscall(SYS_close_range, 3, ~0u, 0) == 0, "close_range");
	c = open_first();
	check((pd = ibv_alloc_pd(c)) && !ibv_dealloc_pd(pd) && !ibv_close_device(c), "after close_range");
	puts("success");
	return 0;
}
