/*
 * A program whose daemon requests copies of memory that it has not registered. It registers the second of four pages,
 * for writing, and the third, for reading only. Each page is filled with its number. When both commands have returned,
 * it prints the first byte of each page, and whether the others are equal to it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 4, REG_MR = 9, LOCAL_WRITE = 1 };

struct reg_mr {
	uint32_t command;
	uint16_t in_words, out_words;
	uint64_t response, start, length, hca_va;
	uint32_t pd, access;
};

static int reg(int fd, void *p, size_t size, uint32_t access)
{
	uint32_t response[3];
	struct reg_mr c = {REG_MR, sizeof c / 4, sizeof response / 4, (uintptr_t)response, (uintptr_t)p, size,
		(uintptr_t)p, 0, access};
	return write(fd, &c, sizeof c) == sizeof c;
}

int main(void)
{
	int fd = open("/dev/infiniband/uverbs0", O_RDWR);
	if (fd < 0)
		return perror("open"), 2;
	char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 3;
	for (int i = 0; i < PAGES; i++)
		memset(p + i * PAGE, '0' + i, PAGE);
	if (!reg(fd, p + PAGE, PAGE, LOCAL_WRITE))
		return 4;
	if (!reg(fd, p + 2 * PAGE, PAGE, 0))
		return 5;
	for (int i = 0; i < PAGES; i++)
		printf("%c %s\n", p[i * PAGE], memcmp(p + i * PAGE, p + i * PAGE + 1, PAGE - 1) ? "differs" : "equal");
	return 0;
}
