/*
 * Starts itself with environments of its own, by each function that can do that, until a child looks for the device.
 * It prints a line for each function whose child does not find it, or has lost what its parent wanted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[4096];

/* look reports whether a child has its variables, and finds the device. */
static int look(int argc, char **argv)
{
	const char *own = getenv("OWN"), *preload = getenv("LD_PRELOAD"), *asan = getenv("ASAN_OPTIONS");
	int is_own = argc < 4 || (own && !strcmp(own, "1") && preload && strstr(preload, ":libm.so.6") && asan &&
				   !strncmp(asan, "exitcode=3:verify", 17));
	return argc > 2 && !strcmp(argv[2], "x") && is_own && access("/dev/infiniband/uverbs0", R_OK) == 0 ? 0 : 1;
}

static void start(const char *name, char *const *env)
{
	char *argv[] = {self, "look", "x", env && *env ? "own" : NULL, NULL};
	pid_t pid;
	if (!strcmp(name, "posix_spawn") || !strcmp(name, "posix_spawnp")) {
		int r = (name[11] ? posix_spawnp : posix_spawn)(&pid, self, NULL, NULL, argv, env);
		if (r)
			printf("%s: %d\n", name, r);
	} else if ((pid = fork()) == 0) {
		if (!strcmp(name, "execve"))
			execve(self, argv, env);
		else if (!strcmp(name, "execvpe"))
			execvpe(self, argv, env);
		else if (!strcmp(name, "fexecve"))
			fexecve(open(self, O_RDONLY), argv, env);
		else if (!strcmp(name, "execle"))
			execle(self, self, "look", "x", argv[3], NULL, env);
		else if (!strcmp(name, "vfork") && vfork() == 0)
			execve(self, argv, env);
		environ = (char **)env;
		if (!strcmp(name, "execv"))
			execv(self, argv);
		else if (!strcmp(name, "execvp"))
			execvp(self, argv);
		else if (!strcmp(name, "execl"))
			execl(self, self, "look", "x", argv[3], NULL);
		else if (!strcmp(name, "execlp"))
			execlp(self, self, "look", "x", argv[3], NULL);
		int status = 0;
		_exit(!strcmp(name, "vfork") && wait(&status) > 0 ? WEXITSTATUS(status) : 2);
	}
	int status = -1;
	if (waitpid(pid, &status, 0) < 0 || status)
		printf("%s: status %d\n", name, status);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return look(argc, argv);
	self[readlink("/proc/self/exe", self, sizeof self - 1)] = 0;
	static const char *const names[] = {"execve", "execvpe", "fexecve", "execle", "vfork", "execv", "execvp", "execl",
					    "execlp", "posix_spawn", "posix_spawnp"};
	char *none[] = {NULL}, *own[] = {"LD_PRELOAD=libm.so.6", "OWN=1", "ASAN_OPTIONS=exitcode=3", NULL};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		start(names[i], none);
		start(names[i], own);
	}
	start("execve", NULL);
	char other[4096], *library = strdup(getenv("LD_PRELOAD"));
	snprintf(other, sizeof other, "LD_PRELOAD=/nowhere%s:libm.so.6", strtok(library, ": "));
	own[0] = other; /* another library, whose path contains that of ours; the loader reports that it is missing */
	int errors = dup(2);
	dup2(open("/dev/null", O_WRONLY), 2);
	start("execve", own);
	dup2(errors, 2);
	clearenv();
	if (access("/dev/infiniband/uverbs0", R_OK))
		printf("after clearenv: %d\n", errno);
	puts("done");
	return 0;
}
