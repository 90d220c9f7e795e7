package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keyring has the keys that sign Debian's archive (package debian-archive-keyring).
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	// installTime is the longest time that an installation may take: 140 MB are downloaded.
	installTime = 10 * time.Minute
)

var found = sync.OnceValues(func() (*Program, error) { return find() })

// Find returns an emulator. The first call may take minutes, if it installs one. The error states what the machine
// lacks. Later calls return the result of the first.
func Find() (*Program, error) { return found() }

func find() (*Program, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("qemu: needs Linux on amd64, this is %s", runtime.GOARCH)
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	p := &Program{path: Emulator}
	first := p.check(ctx)
	if first == nil {
		return p, nil
	}
	p, err := installed(ctx)
	if err != nil {
		return nil, errors.Join(first, err)
	}
	return p, nil
}

// installed returns the emulator in the cache, and installs it if it is not there. A lock keeps two processes from
// installing at the same time.
func installed(ctx context.Context) (*Program, error) {
	cache, err := os.UserCacheDir()
	if err != nil { // no HOME, as in a service
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "ciddk-qemu")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("qemu: %s: %w", lock.Name(), err)
	}
	root := filepath.Join(dir, "root")
	p := unpacked(root)
	if p.check(ctx) == nil {
		return p, nil
	}
	if err := install(ctx, dir); err != nil {
		return nil, err
	}
	return p, p.check(ctx)
}

// unpacked returns the emulator in a folder of unpacked packages. The loader of the folder runs it, since the machine's
// C library may be older.
func unpacked(root string) *Program {
	lib := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	return &Program{
		path: filepath.Join(lib, "ld-linux-x86-64.so.2"),
		args: []string{"--library-path", lib, filepath.Join(root, "usr/bin", Emulator),
			"-L", filepath.Join(root, "usr/share/qemu"), "-L", filepath.Join(root, "usr/share/seabios")},
		env: []string{"QEMU_MODULE_DIR=" + filepath.Join(lib, "qemu")},
	}
}

// run runs a program and returns its standard output.
func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"), env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("qemu: %s %s: %w: %s", name, strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return b, nil
}
