/*
 * Registers memory of many kinds, and checks the result and which pages are there afterwards, as Linux pins them: all, or
 * none is registered (EFAULT). A thread supplies pages that userfaultfd leaves to it.
 */
#include "loop.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { PAGES = 64, SIZE = PAGES * PAGE, BOTH = PROT_READ | PROT_WRITE, WRITE = IBV_ACCESS_LOCAL_WRITE };

static int resident(char *p, size_t size)
{
	unsigned char in[PAGES];
	int n = 0;
	CHECK(!mincore((void *)((uintptr_t)p & -PAGE), size, in));
	for (size_t i = 0; i * PAGE < size; i++)
		n += in[i] & 1;
	return n;
}

static int line;
#define TRY (line = __LINE__, try)

/* try registers memory with access, and expects an errno or, if it is 0, all pages. It unmaps the memory. */
static void try(char *p, size_t size, int access, int want)
{
	CHECK(p != MAP_FAILED);
	errno = 0;
	struct ibv_mr *m = ibv_reg_mr(pd, p, size, access);
	int pages = m ? resident(p, size) : 0;
	if ((want ? m || errno != want : !m || pages * PAGE < (int)size)) {
		printf("line %d: access %d: %s, %d pages\n", line, access, strerror(errno), pages);
		_exit(1);
	}
	CHECK(!m || !ibv_dereg_mr(m));
	munmap(p, size);
}

static char *map_as(int rights) { return mmap(NULL, SIZE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

/* with_rights returns memory in the middle of which a page has other rights. */
static char *with_rights(int rights)
{
	char *p = map(SIZE);
	CHECK(!mprotect(p + SIZE / 2, PAGE, rights));
	return p;
}

static char *with_hole(void)
{
	char *p = map(SIZE);
	CHECK(!munmap(p + SIZE / 2, PAGE));
	return p;
}

static char *map_file(int rights, int kind, off_t length)
{
	char name[] = "/tmp/residentXXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && !unlink(name) && !ftruncate(fd, length));
	char *p = mmap(NULL, SIZE, rights, kind, fd, 0);
	close(fd);
	return p;
}

static int supplied;

static void *supply(void *arg)
{
	struct uffd_msg m;
	int fd = *(int *)arg;
	while (read(fd, &m, sizeof m) == sizeof m) {
		struct uffdio_zeropage z = {.range = {m.arg.pagefault.address & -PAGE, PAGE}};
		if (m.event != UFFD_EVENT_PAGEFAULT)
			continue;
		__atomic_add_fetch(&supplied, 1, __ATOMIC_SEQ_CST); /* before the page lets the registration go on */
		if (ioctl(fd, UFFDIO_ZEROPAGE, &z))
			__atomic_sub_fetch(&supplied, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* by_monitor returns memory whose pages a thread supplies, or NULL where the system does not permit that. */
static char *by_monitor(void)
{
	static int fd;
	pthread_t thread;
	struct uffdio_api api = {.api = UFFD_API};
	fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		return NULL;
	char *p = map(SIZE);
	struct uffdio_register r = {.range = {(uintptr_t)p, SIZE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	CHECK(!ioctl(fd, UFFDIO_REGISTER, &r) && !pthread_create(&thread, NULL, supply, &fd));
	return p;
}

int main(void)
{
	open_device();
	TRY(map(SIZE), SIZE, WRITE, 0);
	TRY(map(SIZE), SIZE, 0, 0);
	TRY(map(SIZE) + 100, SIZE - PAGE, WRITE, 0);
	TRY(map_as(PROT_READ), SIZE, 0, 0);
	TRY(map_as(PROT_READ), SIZE, WRITE, EFAULT);
	TRY(map_as(PROT_READ), SIZE, IBV_ACCESS_MW_BIND, EFAULT);
	TRY(map_as(PROT_NONE), SIZE, 0, EFAULT);
	TRY(with_rights(PROT_NONE), SIZE, WRITE, EFAULT);
	TRY(with_rights(PROT_NONE), SIZE, 0, EFAULT);
	TRY(with_rights(PROT_READ), SIZE, WRITE, EFAULT);
	TRY(with_rights(PROT_READ), SIZE, 0, 0);
	TRY(with_hole(), SIZE, WRITE, EFAULT);
	TRY(map_file(BOTH, MAP_SHARED, SIZE), SIZE, WRITE, 0);
	TRY(map_file(BOTH, MAP_PRIVATE, SIZE), SIZE, WRITE, 0);
	TRY(map_file(PROT_READ, MAP_PRIVATE, SIZE), SIZE, 0, 0);
	TRY(map_file(PROT_READ, MAP_PRIVATE, SIZE), SIZE, WRITE, EFAULT);
	TRY(map_file(BOTH, MAP_SHARED, SIZE / 2), SIZE, WRITE, EFAULT); /* its end is before that of the mapping */
	TRY(mmap(NULL, SIZE, BOTH, MAP_SHARED | MAP_ANONYMOUS, -1, 0), SIZE, WRITE, 0);
	char *p = by_monitor();
	if (p) {
		TRY(p, SIZE, WRITE, 0);
		CHECK(__atomic_load_n(&supplied, __ATOMIC_SEQ_CST) == PAGES);
	}
	puts("success");
	return 0;
}
