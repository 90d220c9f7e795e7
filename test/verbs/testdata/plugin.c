/*
 * A program that loads a verbs program as a plugin, with RTLD_LOCAL, and replaces mmap by a function that makes the
 * system call by the C library's syscall, as memory hooks do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int count;

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off)
{
	count++;
	return (void *)syscall(SYS_mmap, addr, size, prot, flags, fd, off);
}

int main(int argc, char **argv)
{
	void *plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	int (*f)(void) = (int (*)(void))dlsym(plugin, "main");
	int result = f ? f() : 1;
	if (count == 0) {
		fprintf(stderr, "the plugin has mapped nothing\n");
		return 1;
	}
	return result;
}
