package cli

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ciddk/internal/private"
)

// preloadSource is the part that programs cannot do without, shareSource that of memory which is shared, copiesSource
// that of memory which the daemon cannot reach, librarySource that for faults of libibverbs's user library, and
// execSource that for children of programs.
//
//go:embed preload/preload.c
var preloadSource []byte

//go:embed preload/share.c
var shareSource []byte

//go:embed preload/copies.c
var copiesSource []byte

//go:embed preload/library.c
var librarySource []byte

//go:embed preload/exec.c
var execSource []byte

// source is the library that programs preload, as one file.
var source = slices.Concat(preloadSource, []byte("\n#line 1 \"share.c\"\n"), shareSource,
	[]byte("\n#line 1 \"copies.c\"\n"), copiesSource, []byte("\n#line 1 \"library.c\"\n"), librarySource,
	[]byte("\n#line 1 \"exec.c\"\n"), execSource)

// mendSource is librarySource as a library of its own, for programs of carrierSeccomp.
var mendSource = slices.Concat([]byte("#define ALONE\n#line 1 \"library.c\"\n"), librarySource)

// compileFlags are the flags of the C compiler. Hooks write a jump over the beginning of a function, which therefore
// has room for one, and is not the same code as another.
var compileFlags = []string{"-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-ipa-icf", "-falign-functions=32",
	"-pthread", "-x", "c"}

// library returns the path of the compiled library with a source. It compiles the library unless one of the
// directories for it, in which nobody else can have put one, contains it.
func library(source []byte) (string, error) {
	sum := sha256.Sum256(append(slices.Clone(source), strings.Join(compileFlags, " ")...))
	prefix := libraryPrefix + hex.EncodeToString(sum[:8]) + "-"
	var errs []error
	var usable []string
	for _, dir := range libraryDirs() {
		dir, err := private.Dir(dir)
		if err == nil {
			err = checkPreloadable(dir)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if path := compiled(dir, prefix); path != "" {
			return path, nil
		}
		usable = append(usable, dir)
	}
	for _, dir := range usable {
		path, err := compile(dir, prefix, source)
		if err == nil || errors.Is(err, errCompiler) {
			return path, err
		}
		errs = append(errs, err) // such as that of a full disk
	}
	return "",
		fmt.Errorf("no directory for the library that programs preload (set XDG_CACHE_HOME to a private one): %w",
			errors.Join(errs...))
}

// libraryPrefix is the beginning of the names of libraries. The hash of the source and that of the library follow.
const libraryPrefix = "preload-"

// libraryDirs are directories for the library, the best one first.
func libraryDirs() (list []string) {
	if dir, err := os.UserCacheDir(); err == nil { // else a user without a home directory
		list = append(list, filepath.Join(dir, "ddkrun"))
	}
	list = append(list, runtimeDir())
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		list = append(list, filepath.Join(dir, userName()))
	}
	return list
}

// checkPreloadable validates that the dynamic linker can preload a library of a directory. It would leave the library
// out otherwise, and the program would run without adapters. Spaces and colons separate libraries, and a dollar sign
// begins a token such as $ORIGIN (ld.so(8)).
func checkPreloadable(dir string) error {
	if strings.ContainsAny(dir, " :$") {
		return fmt.Errorf("%s: a library to preload cannot have a space, colon or dollar sign in its path", dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s is on a file system without programs (noexec)", dir)
	}
	return nil
}

// compiled returns the path of a library in a private directory, "" if there is none. Its content has the hash that its
// name ends with, so that one that the disk has lost parts of does not count.
func compiled(dir, prefix string) string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range list {
		hash, ok := strings.CutPrefix(e.Name(), prefix)
		path := filepath.Join(dir, e.Name())
		if ok && hash == hashOf(path)+librarySuffix {
			return path
		}
	}
	return ""
}

const librarySuffix = ".so"

// hashOf returns the hash of a file that only this user can have written, else "".
func hashOf(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
		int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return ""
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// errCompiler is wrapped by errors when there is no C compiler.
var errCompiler = errors.New("no C compiler")

// compile compiles the library to a private directory, and returns its path. It exists completely or not at all.
func compile(dir, prefix string, source []byte) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("%w: the library that programs preload is compiled when it is needed first "+
			"(install gcc or clang, so that there is a command cc)", errCompiler)
	}
	lock, err := removeAbandoned(dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	f, err := os.CreateTemp(dir, libraryPrefix+"*"+temporarySuffix)
	if err != nil {
		return "", err
	}
	f.Close()
	defer os.Remove(f.Name()) // it does not exist any more if all is well
	cmd := exec.Command(cc, append(compileFlags, "-o", f.Name(), "-", "-ldl")...)
	cmd.Stdin = strings.NewReader(string(source))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the library that programs preload with %s: %w\n%s", cc, err, out)
	}
	if err := os.Chmod(f.Name(), 0o755); err != nil {
		return "", err
	}
	hash := hashOf(f.Name())
	if hash == "" {
		return "", fmt.Errorf("%s, the library that programs preload, cannot be read", f.Name())
	}
	path := filepath.Join(dir, prefix+hash+librarySuffix)
	return path, os.Rename(f.Name(), path)
}

const temporarySuffix = ".tmp"

// removeAbandoned removes from a directory what killed processes were compiling, unless a process is compiling there.
// None removes what the caller compiles, until it closes the file.
func removeAbandoned(dir string) (lock *os.File, err error) {
	if lock, err = os.Open(dir); err != nil {
		return nil, err
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		list, _ := fs.Glob(os.DirFS(dir), libraryPrefix+"*"+temporarySuffix)
		for _, name := range list {
			_ = os.Remove(filepath.Join(dir, name)) // what stays takes some space
		}
	}
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_SH) // without locks on the file system, nothing is removed
	return lock, nil
}
