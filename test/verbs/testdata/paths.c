/*
 * Finds files of the tree by unusual paths, and with functions of the C library that do not call open or stat by their
 * names. It prints a line for each that does not do what Linux does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEVICE "/sys/class/infiniband/rxe_ddk0"
#define FILE_NAME DEVICE "/node_type"
#define NODE "/dev/infiniband/uverbs0"

static void check(const char *what, int ok)
{
	if (!ok)
		printf("%s: errno %d\n", what, errno);
	errno = 0;
}

static int is_node(const struct stat *st) { return S_ISCHR(st->st_mode) && st->st_rdev == makedev(231, 192); }

/* is_content reports whether a descriptor is one of the file node_type. */
static int is_content(int fd)
{
	char b[8];
	int ok = fd >= 0 && read(fd, b, sizeof b) == 6 && !memcmp(b, "1: CA\n", 6);
	if (fd >= 0)
		close(fd);
	return ok;
}

static int is_seccomp;

static void unusual_paths(void)
{
	struct stat st;
	check("//", is_content(open("//sys//class/infiniband/rxe_ddk0//node_type", O_RDONLY)));
	check(".", is_content(open("/sys/./class/infiniband/./rxe_ddk0/node_type", O_RDONLY)));
	check("..", is_content(open("/sys/class/net/../infiniband/rxe_ddk0/ports/../node_type", O_RDONLY)));
	check("out", stat("/sys/class/infiniband/../../..", &st) == 0 && st.st_ino);
	check("out, a file", access("/dev/infiniband/../null", F_OK) == 0);
	check("out, another file", access("/dev/infiniband/../none", F_OK) < 0 && errno == ENOENT);
	check("slash", stat(FILE_NAME "/", &st) < 0 && errno == ENOTDIR);
	check("similar", access("/dev/infiniband2", F_OK) < 0 && errno == ENOENT);
	check("of the host", access("/sys/class/net/lo/device/infiniband", F_OK) < 0 && errno == ENOENT);
}

/* relative_paths needs directories that each machine has. */
static void relative_paths(void)
{
	struct stat st;
	struct statx x;
	int dir = open("/sys", O_RDONLY | O_DIRECTORY);
	check("openat above", is_content(openat(dir, "class/infiniband/rxe_ddk0/node_type", O_RDONLY)));
	check("faccessat above", faccessat(dir, "class/infiniband", F_OK, 0) == 0);
	close(dir);
	dir = open("/dev", O_RDONLY | O_DIRECTORY);
	int fd = openat(dir, "infiniband/uverbs0", O_RDWR);
	check("device above", fd >= 0 && fstat(fd, &st) == 0 && is_node(&st));
	close(fd);
	close(dir);
	dir = open("/dev/infiniband", O_RDONLY | O_DIRECTORY);
	fd = openat(dir, "uverbs0", O_RDWR);
	check("device in", fd >= 0 && fstat(fd, &st) == 0 && is_node(&st));
	close(fd);
	check("fstatat in", fstatat(dir, "uverbs0", &st, 0) == 0 && is_node(&st));
	check("statx in", statx(dir, "uverbs0", 0, STATX_BASIC_STATS, &x) == 0 && S_ISCHR(x.stx_mode) && !x.stx_size);
	check("faccessat in", faccessat(dir, "uverbs0", R_OK | W_OK, 0) == 0);
	close(dir);
	check("chdir above", chdir("/sys") == 0 && is_content(open("class/infiniband/rxe_ddk0/node_type", O_RDONLY)));
	check("chdir above, device", chdir("/dev") == 0 && stat("infiniband/uverbs0", &st) == 0 && is_node(&st));
	chdir("/");
}

static void rights(void)
{
	check("access", access(NODE, R_OK | W_OK) == 0);
	check("access to execute", access(NODE, X_OK) < 0 && errno == EACCES);
	check("euidaccess", euidaccess(NODE, R_OK | W_OK) == 0);
	check("eaccess", eaccess(FILE_NAME, R_OK) == 0);
	check("access of none", access("/dev/infiniband/none", R_OK) < 0 && errno == ENOENT);
	check("creat", creat(FILE_NAME, 0600) < 0 && errno == EACCES);
	check("creat of none", creat(DEVICE "/none", 0600) < 0 && errno == EACCES);
}

static int files, nodes, is_named = 1;

static int visit(const char *file, const struct stat *st, int type, struct FTW *f)
{
	files += type == FTW_F && st->st_size == 4096;
	nodes += type == FTW_F && is_node(st);
	is_named &= !strncmp(file, "/sys/class/infiniband", 21) || !strncmp(file, "/dev/infiniband", 15);
	is_named &= f->base == 0 || file[f->base - 1] == '/';
	return 0;
}

static int visit_plain(const char *file, const struct stat *st, int type)
{
	files += type == FTW_F && st->st_size == 4096;
	is_named &= !strncmp(file, "/sys/class/infiniband", 21);
	return 0;
}

static void walks(void)
{
	glob_t g = {0};
	check("glob", glob("/sys/class/infiniband/*/ports/[0-9]", 0, NULL, &g) == 0 && g.gl_pathc == 1 &&
			      !strcmp(g.gl_pathv[0], DEVICE "/ports/1"));
	globfree(&g);
	memset(&g, 0, sizeof g);
	check("glob of none", glob("/sys/class/infiniband/none*", 0, NULL, &g) == GLOB_NOMATCH);
	check("nftw", nftw(DEVICE "/ports", visit, 4, FTW_PHYS) == 0 && files > 20 && is_named);
	check("nftw of devices", nftw("/dev/infiniband", visit, 4, 0) == 0 && nodes == 1 && is_named);
	int before = files;
	check("ftw", ftw(DEVICE "/ports/", visit_plain, 4) == 0 && files > before + 20 && is_named);
}

/* links follows the links of a device, and leaves the tree by them. */
static void links(void)
{
	struct stat st;
	char b[PATH_MAX];
	ssize_t n = readlink(DEVICE "/device", b, sizeof b);
	check("readlink", n > 12 && !memcmp(b + n - 12, "ddd0:00:00.0", 12));
	check("lstat", lstat(DEVICE, &st) == 0 && S_ISLNK(st.st_mode));
	check("lstat with a slash", lstat(DEVICE "/", &st) == 0 && S_ISDIR(st.st_mode));
	check("O_NOFOLLOW", open(DEVICE, O_RDONLY | O_NOFOLLOW) < 0 && errno == ELOOP);
	check("realpath", realpath(DEVICE "/device/net/..", b) && !strcmp(b, "/sys/devices/pciddd0:00/ddd0:00:00.0"));
	check("out by a link", realpath(DEVICE "/device/../../../class/net", b) && !strcmp(b, "/sys/class/net"));
	int dir = open(DEVICE "/device", O_PATH | O_DIRECTORY);
	check("readlinkat", readlinkat(dir, "infiniband/rxe_ddk0/device", b, sizeof b) == n);
	check("openat", is_content(openat(dir, "infiniband/rxe_ddk0/node_type", O_RDONLY)));
	check("openat out", faccessat(dir, "../../../bus/pci/devices/ddd0:00:00.0/vendor", R_OK, 0) == 0);
	struct statfs fs;
	check("fstatfs", fstatfs(dir, &fs) == 0 && fs.f_type == SYSFS_MAGIC);
	check("fchdir", fchdir(dir) == 0 && getcwd(b, sizeof b) && !strcmp(b, "/sys/devices/pciddd0:00/ddd0:00:00.0"));
	check("chdir up", chdir("../../../class") == 0 && getcwd(b, sizeof b) && !strcmp(b, "/sys/class"));
	check("chdir", chdir(DEVICE "/ports") == 0 && access("1/state", R_OK) == 0);
	check("getcwd of a small size", !getcwd(b, 8) && errno == ERANGE);
	check("chdir of none", chdir(DEVICE "/none") < 0 && errno == ENOENT);
	check("chdir of a file", chdir(FILE_NAME) < 0 && errno == ENOTDIR);
	close(dir);
	chdir("/");
}

static void status(void)
{
	struct statfs fs;
	struct statvfs vfs;
	char b[256];
	check("statfs", statfs(DEVICE, &fs) == 0 && fs.f_type == SYSFS_MAGIC);
	check("statvfs", statvfs(DEVICE, &vfs) == 0);
	check("getxattr", getxattr(DEVICE, "user.x", b, sizeof b) < 0 && errno != ENOENT);
	check("listxattr", listxattr(DEVICE, b, sizeof b) >= 0);
	check("llistxattr", llistxattr(FILE_NAME, b, sizeof b) >= 0);
	check("listxattr of none", listxattr(DEVICE "/none", b, sizeof b) < 0 && errno == ENOENT);
	FILE *f = freopen(FILE_NAME, "r", fopen("/dev/null", "r"));
	check("freopen", f && fgets(b, sizeof b, f) && !strcmp(b, "1: CA\n"));
	check("freopen of none", !freopen(DEVICE "/none", "r", f) && errno == ENOENT);
}

/* system_calls makes calls that programs for which the C library has no function make. */
static void system_calls(void)
{
	struct stat st;
	struct statx x;
	check("syscall newfstatat", syscall(SYS_newfstatat, AT_FDCWD, NODE, &st, 0) == 0 && is_node(&st));
	check("syscall statx", syscall(SYS_statx, AT_FDCWD, NODE, 0, STATX_BASIC_STATS, &x) == 0 && S_ISCHR(x.stx_mode));
	check("syscall faccessat", syscall(SYS_faccessat, AT_FDCWD, NODE, W_OK) == 0);
#ifdef SYS_open
	check("syscall open", is_content(syscall(SYS_open, FILE_NAME, O_RDONLY)));
	check("syscall stat", syscall(SYS_stat, NODE, &st) == 0 && is_node(&st));
	check("syscall access", syscall(SYS_access, NODE, W_OK) == 0);
#endif
	int fd = open(NODE, O_RDWR);
	char *wrong = (char *)16;
	for (size_t size = 4; size <= 64; size += 4)
		check("write of bad memory", write(fd, wrong, size) < 0 && errno == EFAULT);
	close(fd);
}

/* same_file checks that a file is the same before and after it is opened, for programs that copy files. */
static void same_file(void)
{
	struct stat before, after;
	struct statx x;
	int fd = open(DEVICE "/ports/1/state", O_RDONLY), other = dup(fd);
	check("stat", stat(DEVICE "/ports/1/state", &before) == 0);
	check("fstat", fstat(fd, &after) == 0 && after.st_ino == before.st_ino && after.st_dev == before.st_dev &&
			       after.st_mode == before.st_mode && after.st_size == before.st_size);
	check("fstat of a copy", fstat(other, &after) == 0 && after.st_ino == before.st_ino);
	check("statx", statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0 && x.stx_ino == before.st_ino);
}

int main(int argc, char **argv)
{
	is_seccomp = argc > 1 && !strcmp(argv[1], "seccomp");
	unusual_paths();
	relative_paths();
	rights();
	walks();
	links();
	status();
	system_calls();
	if (!is_seccomp)
		same_file();
	puts("done");
	return 0;
}
