/*
 * A program that SIGSEGV ends, in the way of its argument: an access to an address, or a signal of another process. With
 * an argument that begins with "own ", it has a handler, which ends it with status 7.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void end(int number)
{
	(void)number;
	_exit(7);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	if (!strncmp(way, "own ", 4)) {
		signal(SIGSEGV, end);
		way += 4;
	}
	if (open("/dev/infiniband/uverbs0", O_RDWR) < 0)
		return 1;
	if (!strcmp(way, "sent"))
		kill(getpid(), SIGSEGV);
	else
		*(volatile char *)1 = 0;
	return 2;
}
