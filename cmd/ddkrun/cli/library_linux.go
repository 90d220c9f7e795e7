package cli

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// preloadSource is the part that programs cannot do without, shareSource that of memory which is shared, copiesSource
// that of memory which the daemon cannot reach, and execSource that for children of programs.
//
//go:embed preload/preload.c
var preloadSource []byte

//go:embed preload/share.c
var shareSource []byte

//go:embed preload/copies.c
var copiesSource []byte

//go:embed preload/exec.c
var execSource []byte

// source is the library that programs preload, as one file.
var source = slices.Concat(preloadSource, []byte("\n#line 1 \"share.c\"\n"), shareSource,
	[]byte("\n#line 1 \"copies.c\"\n"), copiesSource, []byte("\n#line 1 \"exec.c\"\n"), execSource)

// compileFlags are the flags of the C compiler. Hooks write a jump over the beginning of a function, which therefore has
// room for one, and is not the same code as another.
var compileFlags = []string{"-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-ipa-icf", "-falign-functions=32",
	"-pthread", "-x", "c"}

// library returns the path of the compiled library. It compiles the library unless the user's cache directory contains
// it.
func library() (string, error) {
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "ddkrun")
	} else if dir, err = privateDir(); err != nil { // a user without a home directory
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("the directory of the compiled library: %w (set XDG_CACHE_HOME to a writable one)", err)
	}
	if err := checkExecutable(dir); err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(slices.Clone(source), strings.Join(compileFlags, " ")...))
	path := filepath.Join(dir, "preload-"+hex.EncodeToString(sum[:8])+".so")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, compile(path)
}

// checkExecutable validates that programs can map code of a directory's files. The dynamic linker would leave out a
// library of another directory, and the program would run without adapters.
func checkExecutable(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s, the directory of the compiled library, is on a file system without programs (noexec): "+
			"set XDG_CACHE_HOME to another one", dir)
	}
	return nil
}

// compile compiles the library. It exists completely or not at all.
func compile(path string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return errors.New("no C compiler: the library that programs preload is compiled when it is needed first " +
			"(install gcc or clang, so that there is a command cc)")
	}
	f, err := os.CreateTemp(filepath.Dir(path), "preload-*.tmp")
	if err != nil {
		return err
	}
	f.Close()
	defer os.Remove(f.Name()) // it does not exist any more if all is well
	cmd := exec.Command(cc, append(compileFlags, "-o", f.Name(), "-", "-ldl")...)
	cmd.Stdin = strings.NewReader(string(source))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the library that programs preload with %s: %w\n%s", cc, err, out)
	}
	if err := os.Chmod(f.Name(), 0o755); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
