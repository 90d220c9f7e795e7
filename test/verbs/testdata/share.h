/*
 * What the programs that check shared memory have in common. Their argument is the choice of ddkrun --share-memory.
 */
#include "loop.h"

static int on, is_auto; /* memory is moved to files; with the limits of auto */

static void set_choice(int argc, char **argv)
{
	CHECK(argc > 1);
	is_auto = !strcmp(argv[1], "auto");
	on = is_auto || !strcmp(argv[1], "always");
	CHECK(on || !strcmp(argv[1], "never"));
}

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

/* wait_alone returns when the threads that were joined have ended for the system, too. */
static inline void wait_alone(void)
{
	char line[8192];
	for (int count = 0; count != 1;) {
		FILE *f = fopen("/proc/self/status", "r");
		CHECK(f);
		while (fgets(line, sizeof line, f))
			sscanf(line, "Threads: %d", &count);
		fclose(f);
		CHECK(count > 0);
	}
}

static int is_zero(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (p[i])
			return 0;
	return 1;
}
