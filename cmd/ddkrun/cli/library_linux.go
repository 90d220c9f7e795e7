package cli

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ciddk/internal/private"
)

// preload is the source of the libraries that programs preload, and the libraries.
//
//go:embed preload
var preload embed.FS

// A library is one that programs preload.
type library struct {
	name  string   // of its file in preload/built/GOARCH, without its suffix
	begin string   // of its source
	parts []string // of its source, files in preload
}

var (
	// carrierLibrary is the carrier: the part that programs cannot do without, those of memory which is shared and of
	// memory which the daemon cannot reach, that for faults of libibverbs's user library, and that for children.
	carrierLibrary = library{name: "carrier",
		parts: []string{"common.c", "preload.c", "share.c", "copies.c", "library.c", "exec.c"}}

	// mendLibrary is the part for faults of libibverbs's user library, and for doorbells, for programs of
	// carrierSeccomp.
	mendLibrary = library{name: "mend", begin: "#define ALONE\n", parts: []string{"common.c", "library.c"}}
)

// source returns the source as one file.
func (l library) source() []byte {
	b := []byte(l.begin)
	for _, name := range l.parts {
		b = append(fmt.Appendf(b, "#line 1 %q\n", name), embedded(name)...)
	}
	return b
}

// fitting returns the library for this machine.
func (l library) fitting() []byte {
	b := l.built(runtime.GOARCH)
	if lackingParts() {
		b = inOne(b)
	}
	return b
}

// built returns the library for a processor, as TestBuilt has built it.
func (l library) built(processor string) []byte {
	return embedded("built/" + processor + "/" + l.name + librarySuffix)
}

// embedded returns a file of preload.
func embedded(name string) []byte {
	b, err := preload.ReadFile("preload/" + name)
	if err != nil {
		panic(err) // the names are those of this file
	}
	return b
}

// compileFlags are the flags of the C compiler. Hooks write a jump over the beginning of a function, which therefore
// has room for one, and is not the same code as another. The library is loaded with the program, so that its variables
// of threads need no function of the dynamic linker.
var compileFlags = []string{"-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-ipa-icf", "-falign-functions=32",
	"-ftls-model=initial-exec", "-pthread", "-x", "c"}

// install returns the path of the library. It writes the library, or compiles it, unless one of the directories for it,
// in which nobody else can have put one, contains it.
func (l library) install(isCompiled bool) (string, error) {
	from, write := []byte(nil), l.compile
	if isCompiled {
		from = append(l.source(), strings.Join(compileFlags, " ")...)
	} else {
		from = l.fitting()
		write = func(path string) error { return os.WriteFile(path, from, 0o755) }
	}
	sum := sha256.Sum256(from)
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
		if path := installed(dir, prefix); path != "" {
			return path, nil
		}
		usable = append(usable, dir)
	}
	for _, dir := range usable {
		path, err := installIn(dir, prefix, write)
		if err == nil || errors.Is(err, errCompiler) {
			return path, err
		}
		errs = append(errs, err) // such as that of a full disk
	}
	return "",
		fmt.Errorf("no directory for the library that programs preload (set XDG_CACHE_HOME to a private one): %w",
			errors.Join(errs...))
}

// libraryPrefix is the beginning of the names of libraries. The hash of what a library was made from follows, and then
// its own.
const libraryPrefix = "preload-"

// temporaryDirs are directories in which each user may make one. Tests have none.
var temporaryDirs = []string{os.TempDir(), "/tmp", "/var/tmp"}

// libraryDirs are directories for the library, the best one first.
func libraryDirs() (list []string) {
	if dir, err := os.UserCacheDir(); err == nil { // else a user without a home directory
		list = append(list, filepath.Join(dir, "ddkrun"))
	}
	list = append(list, runtimeDir())
	for _, dir := range temporaryDirs {
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

// installed returns the path of a library in a private directory, "" if there is none. Its content has the hash that
// its name ends with, so that one that the disk has lost parts of does not count.
func installed(dir, prefix string) string {
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

// installIn has a library written to a private directory, and returns its path. It exists completely or not at all.
func installIn(dir, prefix string, write func(path string) error) (string, error) {
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
	if err := write(f.Name()); err != nil {
		return "", err
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

// removeAbandoned removes from a directory what killed processes were writing, unless a process is writing there.
// None removes what the caller writes, until it closes the file.
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

// errCompiler is wrapped by errors when there is no C compiler.
var errCompiler = errors.New("no C compiler")

// compile compiles the library to a file.
func (l library) compile(path string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return fmt.Errorf("%w: --compile compiles the library that programs preload (install gcc or clang, so that "+
			"there is a command cc, or use the library that ddkrun brings)", errCompiler)
	}
	cmd := exec.Command(cc, append(slices.Clone(compileFlags), "-o", path, "-", "-ldl")...)
	cmd.Stdin = bytes.NewReader(l.source())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the library that programs preload with %s: %w\n%s", cc, err, out)
	}
	return nil
}
