/* A dlsym that finds the next function of a name in its first version, as that of glibc before 2.36. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);
	void *f = NULL;
	if (!real)
		real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (handle == RTLD_NEXT && !(f = dlvsym(RTLD_NEXT, name, "IBVERBS_1.0")))
		f = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
	return f ? f : real(handle, name);
}
