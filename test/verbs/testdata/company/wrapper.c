/*
 * A library that wraps the functions of FUNCTIONS, which the compiler is given: each is counted, and goes on to the next
 * one of its name, whatever its arguments are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct wrapped {
	const char *name;
	void *next;
	long calls;
};

#define ENTRY(name) {#name, 0, 0},
__attribute__((visibility("hidden"))) struct wrapped company_wrapped[] = {FUNCTIONS(ENTRY){0, 0, 0}};

__attribute__((visibility("hidden"))) void *company_find(struct wrapped *w)
{
	w->next = dlsym(RTLD_NEXT, w->name);
	if (!w->next)
		abort();
	return w->next;
}

/* company_calls returns how often a function was called. */
long company_calls(const char *name)
{
	struct wrapped *w = company_wrapped;
	while (w->name && strcmp(w->name, name))
		w++;
	return w->calls;
}

/* The calls of company_find keep the registers with arguments. None of the functions has floating point numbers. */
__asm__(".text\n"
	"company_go:\n"
	"	lock incq 16(%r11)\n"
	"	movq 8(%r11), %r10\n"
	"	testq %r10, %r10\n"
	"	jne 1f\n"
	"	push %rax\n	push %rdi\n	push %rsi\n	push %rdx\n	push %rcx\n	push %r8\n	push %r9\n"
	"	movq %r11, %rdi\n"
	"	call company_find\n"
	"	movq %rax, %r10\n"
	"	pop %r9\n	pop %r8\n	pop %rcx\n	pop %rdx\n	pop %rsi\n	pop %rdi\n	pop %rax\n"
	"1:	jmp *%r10\n"
	".set company_at, 0\n");

#define WRAP(name)                                                                                                     \
	__asm__(".globl " #name "\n"                                                                                   \
		".type " #name ", @function\n" #name ":\n"                                                             \
		"	lea company_wrapped+company_at(%rip), %r11\n"                                                  \
		"	jmp company_go\n"                                                                              \
		".set company_at, company_at+24\n");
FUNCTIONS(WRAP)
