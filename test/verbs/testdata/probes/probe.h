/*
 * Probes of the verbs API: small programs that do unusual things and print what they see, one fact a line, as
 * "probe.key = value". Keys are unique. A test compares the lines of two systems.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, KEYS = 64 };

#define ALL_ACCESS                                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |        \
	 IBV_ACCESS_MW_BIND)

/* What every probe has: the device is opened before it runs, in a process of its own. */
extern struct ibv_context *context;
extern struct ibv_pd *pd;
extern struct ibv_cq *cq;
extern struct ibv_mr *mr; /* buffer, with ALL_ACCESS */
extern char *buffer;	  /* 16 pages */
extern union ibv_gid gid; /* the first one for RoCEv2 and IPv4 */
extern int gid_index;

enum { BUFFER = 16 * PAGE };

/* say prints a fact. */
void say(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* error says the result of a function that returns 0, an errno, or -1 with errno. */
void error(const char *key, int result);
#define ERROR(key, call) (errno = 0, error(key, call))

/* made says whether an object was created, and returns it. */
void *made(const char *key, void *object);
#define MADE(key, call) (errno = 0, made(key, call))

/* must ends the probe if a call on which it depends fails. */
void must(int ok, const char *text, int line);
#define MUST(x) must(!!(x), #x, __LINE__)

/* text is a formatted key. It is valid until KEYS further calls. */
const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct ibv_qp *new_qp(enum ibv_qp_type type);
int to_init(struct ibv_qp *qp);
int to_rtr(struct ibv_qp *qp, uint32_t to);
int to_rts(struct ibv_qp *qp);
void join(struct ibv_qp *a, struct ibv_qp *b);	  /* connects QPs, or one with itself */
int wait_wc(struct ibv_wc *wc);			  /* polls for a completion, at most 30 s */
void say_wc(const char *key);			  /* waits for a completion and says it */
void say_event(const char *key);		  /* says the pending asynchronous event */
void say_qp(const char *key, struct ibv_qp *qp);  /* says the state */

/* settle waits for what happens by itself: the milliseconds of the option -d. A test repeats probes with longer delays. */
void settle(void);

struct probe {
	const char *name;
	void (*run)(void);
};
extern const struct probe device_probes[], memory_probes[], cq_probes[], qp_probes[], transfer_probes[],
	file_probes[], connection_probes[];
