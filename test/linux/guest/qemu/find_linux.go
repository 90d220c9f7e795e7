package qemu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"ciddk/internal/debian"
)

// installTime is the longest time that an installation may take: 140 MB are downloaded.
const installTime = 10 * time.Minute

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

// packages are Debian's with a QEMU that has vfio-user.
var packages = debian.Set{Name: "qemu", Suite: "sid", Packages: []string{"qemu-system-x86"}}

// installed returns the emulator in the user's cache, and installs it if it is not there.
func installed(ctx context.Context) (*Program, error) {
	var p *Program
	_, err := packages.Root(ctx, func(root string) error {
		p = unpacked(root)
		return p.check(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("qemu: %w", err)
	}
	return p, nil
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
