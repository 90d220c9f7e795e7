/*
 * Children of programs. Many programs start others with an environment of their own: test runners, build tools, scripts
 * that set LD_PRELOAD. Their children get what they need in addition. This file is a part of preload.c.
 *
 * A child of fork or vfork may call these functions while another thread holds a lock, so they call no function that
 * takes one.
 */

/* The option without which AddressSanitizer ends a program in which a preloaded library precedes its own. */
static const char *const any_order = "verify_asan_link_order=0";

__attribute__((constructor)) static void prepare(void) { setting(ROOT); }

/* A variable is one to which a value is added, unless it is one of the elements of the variable's list. */
static const struct addition {
	const char *name;
	const char *const *value;
	int is_last; /* the value comes after the others */
} additions[] = {{"LD_PRELOAD", &library, 0}, {"ASAN_OPTIONS", &any_order, 1}};

enum { ADDITIONS = sizeof additions / sizeof *additions };

/* has_element reports whether a list, whose elements end with colons or blanks, has an element. */
static int has_element(const char *list, const char *element)
{
	size_t n = strlen(element);
	for (const char *p = list; (p = strstr(p, element)); p++)
		if ((p == list || strchr(": ", p[-1])) && strchr(": ", p[n])) /* or the end, which strchr finds, too */
			return 1;
	return 0;
}

/* entry_of returns the entry of a variable in an environment, or NULL. */
static char *const *entry_of(char *const *env, const char *name)
{
	size_t n = strlen(name);
	for (; env && *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=')
			return env;
	return NULL;
}

/* count_with returns the number of entries that an environment may have with ours, and the end. */
static size_t count_with(char *const *env)
{
	size_t n = 0;
	while (env && env[n])
		n++;
	return n + ADDITIONS + SETTING_COUNT + 1;
}

/* text_with returns the room for the entries that are changed. */
static size_t text_with(char *const *env)
{
	size_t n = 0;
	for (int i = 0; i < ADDITIONS; i++) {
		char *const *old = entry_of(env, additions[i].name);
		n += (old ? strlen(*old) : strlen(additions[i].name)) + 1 + strlen(*additions[i].value) + 1;
	}
	return n;
}

/* add stores an entry with a value that is added to an old one, and returns the end. */
static char *add(char *text, const struct addition *a, const char *old)
{
	char *p = stpcpy(stpcpy(text, a->name), "=");
	const char *first = a->is_last ? old : *a->value, *last = a->is_last ? *a->value : old;
	return stpcpy(stpcpy(stpcpy(p, first), *old ? ":" : ""), last) + 1;
}

/* complete stores an environment with what is missing in it. list and text have the sizes of the functions above. */
static char **complete(char **list, char *text, char *const *env)
{
	size_t n = 0;
	for (; env && *env; env++)
		list[n++] = *env;
	list[n] = NULL;
	for (int i = 0; i < ADDITIONS; i++) {
		char **old = (char **)entry_of(list, additions[i].name);
		if (old && has_element(*old + strlen(additions[i].name) + 1, *additions[i].value))
			continue;
		char *entry = text;
		text = add(text, &additions[i], old ? *old + strlen(additions[i].name) + 1 : "");
		if (!old) {
			old = &list[n++];
			list[n] = NULL;
		}
		*old = entry;
	}
	for (int i = 0; i < SETTING_COUNT; i++)
		if (settings[i] && !entry_of(list, setting_names[i])) {
			list[n++] = settings[i];
			list[n] = NULL;
		}
	return list;
}

/* COMPLETE returns an environment with ours, which exists until the function returns. */
#define COMPLETE(env)                                                                                                  \
	(setting(ROOT) ? complete(alloca(count_with(env) * sizeof(char *)), alloca(text_with(env)), env) : (char **)(env))

static int execute(const char *path, char *const argv[], char *const env[])
{
	return REAL(execve)(path, argv, COMPLETE(env));
}

static int find_and_execute(const char *file, char *const argv[], char *const env[])
{
	return REAL(execvpe)(file, argv, COMPLETE(env));
}

EXPORT int execve(const char *path, char *const argv[], char *const env[]) { return execute(path, argv, env); }

EXPORT int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
	return REAL(execveat)(dir, path, argv, COMPLETE(env), flags);
}

EXPORT int fexecve(int fd, char *const argv[], char *const env[]) { return REAL(fexecve)(fd, argv, COMPLETE(env)); }

EXPORT int execvpe(const char *file, char *const argv[], char *const env[]) { return find_and_execute(file, argv, env); }

EXPORT int execv(const char *path, char *const argv[]) { return execute(path, argv, environ); }

EXPORT int execvp(const char *file, char *const argv[]) { return find_and_execute(file, argv, environ); }

/* ARGUMENTS stores the arguments of a function in argv, whose end is a null pointer, and leaves ap behind it. */
#define ARGUMENTS(first)                                                                                               \
	va_list ap;                                                                                                    \
	size_t count = 1;                                                                                              \
	va_start(ap, first);                                                                                           \
	while (va_arg(ap, char *))                                                                                     \
		count++;                                                                                               \
	va_end(ap);                                                                                                    \
	char **argv = alloca((count + 1) * sizeof *argv);                                                              \
	argv[0] = (char *)first;                                                                                       \
	va_start(ap, first);                                                                                           \
	for (size_t i = 1; i <= count; i++)                                                                            \
	argv[i] = va_arg(ap, char *)

EXPORT int execl(const char *path, const char *first, ...)
{
	ARGUMENTS(first);
	va_end(ap);
	return execute(path, argv, environ);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
	ARGUMENTS(first);
	va_end(ap);
	return find_and_execute(file, argv, environ);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	ARGUMENTS(first);
	char *const *env = va_arg(ap, char *const *);
	va_end(ap);
	return execute(path, argv, env);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	return REAL(posix_spawn)(pid, path, actions, attr, argv, COMPLETE(env));
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	return REAL(posix_spawnp)(pid, file, actions, attr, argv, COMPLETE(env));
}
