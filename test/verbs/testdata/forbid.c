// A program that forbids calls to itself, and becomes another program. The first argument names the system whose calls
// it has: "container", whose profile forbids pidfd_getfd, or the version of a kernel that lacks calls.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PIDFD_GETFD = 438, OPENAT2 = 437, FIRST_LISTENER_FLAG = 8, IOCTL_ADD = 0x40182103 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FAIL(e) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e))

/* FILTER forbids calls from a number on, up to one, and one call with an argument that has bits, or has a value. */
#define FILTER(from, to, call, test, value, e)                                                                         \
	{                                                                                                              \
		LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, from, 0, 2),                                             \
			BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, to, 1, 0), FAIL(e),                                        \
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3), LOAD(args[1]),                                \
			BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, 1), FAIL(EINVAL),                                   \
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),                                                  \
	}

static const struct {
	const char *name;
	struct sock_filter filter[9];
} systems[] = {
	{"container", FILTER(PIDFD_GETFD, PIDFD_GETFD, -1, BPF_JEQ, 0, EPERM)},
	{"4.18", FILTER(SYS_rseq + 1, -1, SYS_seccomp, BPF_JSET, FIRST_LISTENER_FLAG, ENOSYS)},
	{"5.4", FILTER(OPENAT2, -1, SYS_ioctl, BPF_JEQ, IOCTL_ADD, ENOSYS)},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < sizeof systems / sizeof *systems; i++) {
		struct sock_fprog program = {9, (struct sock_filter *)systems[i].filter};
		if (strcmp(argv[1], systems[i].name))
			continue;
		if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			execv(argv[2], argv + 2);
		break;
	}
	perror("forbid");
	return 1;
}
