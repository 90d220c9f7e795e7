//go:build amd64 || arm64

package seccomp

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// preloadList is the file with libraries that all dynamic programs preload (ld.so(8)). A program finds the library of
// Config.Preload there before those of the system, whatever its environment is, and whatever rights it has.
const preloadList = "/etc/ld.so.preload"

// maxPreloadList is more than a list has.
const maxPreloadList = 64 << 10

// preloads reports whether the program can preload the library. Its root directory may be another one, and
// AddressSanitizer ends a program in which another library precedes its own, unless AnyOrder permits it.
func (t *task) preloads() bool {
	if t.preload == "" || unix.Access(t.inRoot(t.preload), unix.R_OK) != nil {
		return false
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", t.tid))
	if err == nil && bytes.Contains(env, []byte(AnyOrder)) {
		return true
	}
	f, err := elf.Open(fmt.Sprintf("/proc/%d/exe", t.tid))
	if err != nil {
		return true // another user's, perhaps
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	return err != nil || !slices.ContainsFunc(libraries, func(name string) bool {
		return strings.HasPrefix(name, "libasan.")
	})
}

// AnyOrder is the option of ASAN_OPTIONS by which other libraries may precede that of AddressSanitizer.
const AnyOrder = "verify_asan_link_order=0"

// inRoot returns a path of the program as one of this process.
func (t *task) inRoot(name string) string { return fmt.Sprintf("/proc/%d/root%s", t.tid, name) }

// openPreloadList opens the list.
func (t *task) openPreloadList(flags int) result {
	if !t.preloads() {
		return proceed
	}
	list := []byte(t.preload + "\n")
	if f, err := os.Open(t.inRoot(preloadList)); err == nil { // few systems have one
		own, err := io.ReadAll(io.LimitReader(f, maxPreloadList))
		f.Close()
		if err != nil {
			return failed(err)
		}
		list = append(list, own...)
	}
	if !t.isValid() {
		return failed(unix.EINTR) // nobody receives it
	}
	fd, err := memoryFile("ld.so.preload", list)
	if err != nil {
		return failed(err)
	}
	return t.giveFile(fd, flags)
}
