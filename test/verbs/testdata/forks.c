/*
 * A verbs program that starts processes in many ways while it has registered memory. Each process has its own memory.
 */
#include "share.h"
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Six pages of one registration. Page 2 is unmapped, page 3 is read-only, and page 4 is not accessible. */
enum { PAGES = 6 };
static char *memory;
static struct ibv_mr *mr;
static int to[2], from[2];

/* first is what a process does that has copied the memory. It returns when its parent has looked. */
static void first(void)
{
	char c;
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL)); /* if the parent fails, it writes nothing */
	CHECK(read(to[0], &c, 1) == 1);           /* the parent has written */
	CHECK(!is_moved(memory) && has(memory, 2 * PAGE, 1) && memory[3 * PAGE] == 3);
	CHECK(!mprotect(memory + 4 * PAGE, PAGE, PROT_READ) && has(memory + 4 * PAGE, PAGE, 4));
	CHECK(has(memory + 5 * PAGE, PAGE, 5));
	fill(memory, 2 * PAGE, 6);
	CHECK(write(from[1], "", 1) == 1 && read(to[0], &c, 1) == 1 && has(memory, 2 * PAGE, 6));
}

/* stack is that of processes of clone. */
static _Alignas(16) char stack[64 << 10];

static int run_first(void *arg)
{
	CHECK(arg == memory);
	first();
	return 0;
}

/* at_fork and after_fork are handlers of the program. They were registered before and after the library's first use. */
static int handled;

static void at_fork(void) { memory[5 * PAGE + 1] ^= 1; }

static void after_fork(void)
{
	handled += memory[5 * PAGE] == 5; /* the memory is there */
	memory[5 * PAGE + 1] ^= 1;
}

enum { FORK, FORK_ONLY, SYSCALL_FORK, SYSCALL_CLONE, SYSCALL_CLONE3, CLONE, WAYS };

static pid_t start(int way)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	switch (way) {
	case FORK:
		return fork();
	case FORK_ONLY:
		return _Fork();
	case SYSCALL_FORK:
#ifdef SYS_fork
		return syscall(SYS_fork);
#endif
	case SYSCALL_CLONE:
		return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	case SYSCALL_CLONE3:
		return syscall(SYS_clone3, &args, sizeof args);
	}
	return clone(run_first, stack + sizeof stack, SIGCHLD, memory);
}

static void end(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* prepare registers memory, and makes some of it special. */
static void prepare(void)
{
	memory = map(PAGES * PAGE);
	CHECK(mr = reg(memory, PAGES * PAGE));
	CHECK(is_moved(memory) == on && is_moved(memory + 5 * PAGE) == on);
	fill(memory + 3 * PAGE, PAGE, 3);
	fill(memory + 4 * PAGE, PAGE, 4);
	fill(memory + 5 * PAGE, PAGE, 5);
	CHECK(!munmap(memory + 2 * PAGE, PAGE) && !mprotect(memory + 3 * PAGE, PAGE, PROT_READ));
	CHECK(!mprotect(memory + 4 * PAGE, PAGE, PROT_NONE));
}

/* separates checks that a process has the memory as it was, and that no process sees what the other writes. */
static void separates(int way, int is_connected)
{
	char c;
	CHECK(!pipe(to) && !pipe(from));
	fill(memory, 2 * PAGE, 1);
	pid_t child = start(way);
	CHECK(child >= 0);
	if (child == 0) {
		first();
		_exit(0);
	}
	fill(memory, 2 * PAGE, 2);
	CHECK(write(to[1], "", 1) == 1 && read(from[0], &c, 1) == 1);
	CHECK(has(memory, 2 * PAGE, 2) && is_moved(memory) == on);
	if (is_connected)
		works(memory, mr, PAGE, 3);
	CHECK(write(to[1], "", 1) == 1);
	end(child);
	CHECK(!close(to[0]) && !close(to[1]) && !close(from[0]) && !close(from[1]));
}

/* forks_unseen writes to a byte in a process of a fork that no library can see. It is not that of the parent. */
static void forks_unseen(volatile char *at)
{
#ifdef __x86_64__
	const char before = *at;
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "0"(SYS_fork) : "rcx", "r11", "memory");
	if (r == 0) {
		signal(SIGSEGV, SIG_DFL); /* the library would print that it is there */
		*at = 9;
		_exit(0);
	}
	int status;
	CHECK(r > 0 && waitpid(r, &status, 0) == r && *at == before);
	CHECK(on ? WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV : WIFEXITED(status));
#else
	(void)at;
#endif
}

/* advises checks the calls of ibv_fork_init, which programs make for memory that children do not need. */
static void advises(void)
{
	char *p = map(2 * PAGE);
	fill(p, 2 * PAGE, 1);
	CHECK(!madvise(p, 2 * PAGE, MADV_DONTFORK));
	struct ibv_mr *m = reg(p, 2 * PAGE);
	CHECK(m && is_moved(p) == on && has(p, 2 * PAGE, 1));
	works(p, m, PAGE, 2);
	fill(p, PAGE, 1);
	CHECK(!ibv_dereg_mr(m) && !madvise(p, 2 * PAGE, MADV_DOFORK));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(has(p, 2 * PAGE, 1) && !is_moved(p));
		fill(p, 2 * PAGE, 3);
		_exit(0);
	}
	end(child);
	CHECK(has(p, 2 * PAGE, 1));
	forks_unseen(p);
	forks_unseen(memory + 5 * PAGE);
	CHECK(!munmap(p, 2 * PAGE));
}

/* registers registers memory in a child, with a device of its own: memory of its parent, and new memory. */
static void registers(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		open_device();
		connect_loop();
		CHECK((mr = reg(memory, 2 * PAGE)) && is_moved(memory) == on);
		works(memory, mr, PAGE, 1);
		char *p = map(2 * PAGE);
		fill(p, 2 * PAGE, 2);
		struct ibv_mr *m = reg(p, 2 * PAGE);
		CHECK(m && is_moved(p) == on && has(p, 2 * PAGE, 2));
		works(p, m, PAGE, 3);
		fill(p, PAGE, 4);
		pid_t grandchild = fork();
		CHECK(grandchild >= 0);
		if (grandchild == 0) {
			CHECK(has(p, PAGE, 4));
			fill(p, PAGE, 5);
			_exit(0);
		}
		end(grandchild);
		CHECK(has(p, PAGE, 4));
		_exit(0);
	}
	end(child);
	works(memory, mr, PAGE, 6);
}

/* A handler of a signal forks while the program calls functions that hold locks. */
static volatile sig_atomic_t forks;

static void fork_in_handler(int number)
{
	(void)number;
	pid_t child = _Fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(memory[5 * PAGE] != 5);
	end(child);
	forks++;
}

static void interrupts(void)
{
	struct sigaction a = {.sa_handler = fork_in_handler};
	char *p = map(PAGE);
	struct ibv_mr *m = reg(p, PAGE);
	CHECK(m && !sigaction(SIGUSR1, &a, NULL));
	pid_t parent = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
		for (;;) {
			CHECK(!kill(parent, SIGUSR1));
			usleep(1000);
		}
	}
	while (forks < 10)
		CHECK(!madvise(p, PAGE, MADV_DONTNEED) && is_zero(p, PAGE));
	CHECK(!kill(child, SIGKILL));
	while (waitpid(child, NULL, 0) < 0)
		CHECK(errno == EINTR);
	a.sa_handler = SIG_IGN;
	CHECK(!sigaction(SIGUSR1, &a, NULL) && !ibv_dereg_mr(m));
}

static volatile int is_done;

static int share_memory(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1 << 20 && !is_done; i++) /* not for ever, if the test fails */
		usleep(100);
	return 0;
}

/* joins starts a process that has the same memory. It could write to pages while they are moved. */
static void joins(void)
{
	char *p = map(PAGE);
	pid_t child = clone(share_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
	CHECK(child > 0);
	struct ibv_mr *m = reg(p, PAGE);
	CHECK(m && !is_moved(p));
	works(p, m, PAGE, 1);
	is_done = 1;
	end(child);
	CHECK(!ibv_dereg_mr(m));
}

int main(int argc, char **argv)
{
	CHECK(!pthread_atfork(at_fork, after_fork, after_fork));
	set_choice(argc, argv);
	memory = map(PAGES * PAGE); /* for the handlers */
	open_device();
	connect_loop();
	prepare();
	CHECK(!pthread_atfork(at_fork, after_fork, after_fork));
	for (int way = 0; way < WAYS; way++)
		separates(way, 1);
	CHECK(handled == 2); /* once by each handler, in this process */
	advises();
	registers();
	interrupts();
	joins();
	CHECK(!syscall(SYS_close_range, 3, ~0u, 0)); /* the files of memory, too */
	for (int way = 0; way < WAYS; way++)
		separates(way, 0);
	open_device();
	connect_loop();
	CHECK((mr = reg(memory, 2 * PAGE)) && is_moved(memory) == on); /* without its file, it is copied */
	works(memory, mr, PAGE, 1);
	if (chroot("/proc/self/fdinfo") == 0) /* root */
		for (int way = 0; way < WAYS; way++) {
			CHECK(!pipe(to) && !pipe(from) && !mprotect(memory + 4 * PAGE, PAGE, PROT_READ));
			fill(memory, 2 * PAGE, 1);
			pid_t child = start(way == CLONE ? FORK : way);
			CHECK(child >= 0);
			if (child == 0) {
				CHECK(has(memory, 2 * PAGE, 1));
				fill(memory, 2 * PAGE, 2);
				_exit(0);
			}
			end(child);
			CHECK(has(memory, 2 * PAGE, 1));
		}
	puts("success");
	return 0;
}
