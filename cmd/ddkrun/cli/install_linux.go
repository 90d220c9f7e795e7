package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The names in the directory of --install.
const (
	installedLibrary = "carrier" + librarySuffix
	installedTree    = "root"
)

// installTo writes the library and the tree of a daemon's devices to a directory, such as one that a container mounts,
// and prints the environment with which programs find them. What an earlier call has written is replaced at once.
func installTo(w io.Writer, o options) error {
	d, err := findDaemon(o.socket, -1, o.wait)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(o.install)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := checkPreloadable(dir); err != nil {
		return err
	}
	library := filepath.Join(dir, installedLibrary)
	temp := library + temporarySuffix
	if err := errors.Join(os.WriteFile(temp, carrierLibrary.fitting(), 0o755), os.Rename(temp, library)); err != nil {
		return err
	}
	root := filepath.Join(dir, installedTree)
	if temp, err = writeTree(dir, append(d.tree, functionsOfHost()...)); err != nil {
		return err
	}
	defer os.RemoveAll(temp) // the earlier tree, or one that could not be renamed
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, root, unix.RENAME_EXCHANGE)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(temp, root)
	}
	if err != nil {
		return err
	}
	for _, v := range withStock(environment(nil, library, d.socket, root, o.share), o.isStock) {
		fmt.Fprintln(w, v)
	}
	return nil
}
