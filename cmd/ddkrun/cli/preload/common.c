/*
 * What both libraries have: raw system calls, the functions that the libraries replace, and bells. This is their first
 * part.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#define EXPORT __attribute__((visibility("default")))

/* Raw system calls: no other library replaces them, and they are no cancellation points. */
static long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined __x86_64__
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "+a"(number)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return number;
#elif defined __aarch64__
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
			 x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "the library makes system calls of x86-64 and arm64 only: use ddkrun --carrier seccomp"
#endif
}

static long set_errno(long r)
{
	if (r >= 0 || r < -4095)
		return r;
	errno = -r;
	return -1;
}

#define RAW(...) RAW_(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_(n, a, b, c, d, e, f, ...)                                                                                 \
	set_errno(raw_call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))

/*
 * A next is the next function of a name: that of a library that was loaded after this one, or of the C library. All are
 * found when the library is initialized, since dlsym may take a lock, or allocate memory.
 */
struct next {
	const char *name;
	_Atomic(void *) f;
} __attribute__((aligned(16)));

#pragma GCC visibility push(hidden)
extern struct next __start_nexts[], __stop_nexts[];
extern const char __ehdr_start[], _end[];
#pragma GCC visibility pop

/*
 * The versions of functions that have several, of which glibc before 2.36 finds the first one if it is asked for the
 * next function of a name (BZ 14932). They do what programs have not expected for 15 years.
 */
#ifdef __aarch64__
#define FIRST_GLIBC "GLIBC_2.17"
#else
#define FIRST_GLIBC "GLIBC_2.2.5"
#endif

static const struct {
	const char *name, *first, *last;
} versions[] = {
	{"glob", FIRST_GLIBC, "GLIBC_2.27"},
	{"glob64", FIRST_GLIBC, "GLIBC_2.27"},
	{"nftw", FIRST_GLIBC, "GLIBC_2.3.3"},
	{"nftw64", FIRST_GLIBC, "GLIBC_2.3.3"},
	{"posix_spawn", FIRST_GLIBC, "GLIBC_2.15"},
	{"posix_spawnp", FIRST_GLIBC, "GLIBC_2.15"},
	{"realpath", FIRST_GLIBC, "GLIBC_2.3"},
};

#pragma weak dlvsym /* musl has no versions */

/* next_symbol returns the next function of a name, in its last version if the function is the first one. */
static void *next_symbol(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);
	for (size_t i = 0; f && dlvsym && i < sizeof versions / sizeof *versions; i++)
		if (!strcmp(name, versions[i].name) && f == dlvsym(RTLD_NEXT, name, versions[i].first)) {
			void *last = dlvsym(RTLD_NEXT, name, versions[i].last);
			return last ? last : f;
		}
	return f;
}

static long is_missing(void) { return set_errno(-ENOSYS); }

static void *find_next(struct next *n)
{
	void *f = atomic_load_explicit(&n->f, memory_order_relaxed);
	if (f)
		return f;
	f = next_symbol(n->name);
	if ((const char *)f >= __ehdr_start && (const char *)f < _end) /* by a dlsym of another library, which precedes */
		f = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), n->name);
	f = f ? f : (void *)is_missing;
	atomic_store_explicit(&n->f, f, memory_order_relaxed);
	return f;
}

#define NEXT(name_)                                                                                                    \
	({                                                                                                             \
		static struct next next __attribute__((section("nexts"), used)) = {#name_, NULL};                      \
		&next;                                                                                                 \
	})
#define REAL(name) ((__typeof__(&name))find_next(NEXT(name)))

/*
 * READY is REAL, or NULL before the library is initialized. Allocators map memory when they start, and dlsym may
 * allocate some.
 */
#define READY(name) ((__typeof__(&name))atomic_load_explicit(&NEXT(name)->f, memory_order_relaxed))

__attribute__((constructor)) static void find_all(void)
{
	for (struct next *n = __start_nexts; n < __stop_nexts; n++)
		find_next(n);
	dlerror(); /* the program must not see ours */
}

/*
 * Bells: the places in memory that is shared with the adapter by which a program starts a send queue without a system
 * call. Their layout is that of the software adapter (package ciddk/internal/rings, header.go).
 */
enum { HEADER_SIZE = 4096, MAX_BELLS = 16384 };
enum { OFF_ASLEEP = 0, OFF_SUMMARY = 128, OFF_DIRTY = OFF_SUMMARY + MAX_BELLS / 64 / 64 * 8 };

static void set_bit(char *word, uint64_t bit)
{
	_Atomic uint64_t *w = (_Atomic uint64_t *)word;
	if (!(atomic_load(w) & bit))
		atomic_fetch_or(w, bit);
}

/* mark sets the bell of an index, and returns the word that is not 0 if the adapter sleeps. */
static _Atomic uint32_t *mark(char *memory, int index)
{
	set_bit(memory + OFF_DIRTY + index / 64 * 8, 1ull << index % 64);
	set_bit(memory + OFF_SUMMARY + index / 4096 * 8, 1ull << index / 64 % 64);
	return (_Atomic uint32_t *)(memory + OFF_ASLEEP);
}

/* The command that starts a send queue: post send (28) without requests. */
struct doorbell {
	uint32_t command;
	uint16_t in_words, out_words;
	uint64_t response;
	uint32_t handle, count;
};

enum { POST_SEND = 28, DOORBELL_SIZE = 32, FRAMES_SIZE = 2048 };

/*
 * is_in_frames reports whether an address is in the stack frames of callers, which exist. The provider has its command
 * there. Other addresses may be wrong, and only the kernel can find that out.
 */
static int is_in_frames(const void *p)
{
	return (uintptr_t)p - (uintptr_t)__builtin_frame_address(0) < FRAMES_SIZE;
}

/* is_doorbell reports whether a write is the command that starts a send queue, and stores the handle of the QP. */
static int is_doorbell(const void *buf, size_t size, uint32_t *handle)
{
	struct doorbell b;
	if (size != DOORBELL_SIZE || !is_in_frames(buf))
		return 0;
	memcpy(&b, buf, sizeof b);
	*handle = b.handle;
	return b.command == POST_SEND && b.in_words == DOORBELL_SIZE / 4 && b.count == 0;
}
