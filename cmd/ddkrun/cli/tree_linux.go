package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/private"
)

// runtimeDir returns the directory for what lives as long as the user's session. A relative path in the variable does
// not count (XDG Base Directory Specification).
func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ddkrun")
	}
	return filepath.Join(writableDir(os.TempDir(), sharedMemory), userName())
}

// sharedMemory is a directory that systems with a root that cannot be written have, too: that of shm_open(3).
const sharedMemory = "/dev/shm"

// writableDir returns the first directory in which files can be created, and otherwise the first one.
func writableDir(list ...string) string {
	for _, dir := range list {
		if unix.Access(dir, unix.W_OK|unix.X_OK) == nil {
			return dir
		}
	}
	return list[0]
}

// userName is the name of the user's directory among those of other users.
func userName() string { return "ddkrun-" + strconv.Itoa(os.Geteuid()) }

// maxSocketPath is the length of the longest path of a socket (unix(7)).
const maxSocketPath = 107

// privateDir creates the runtime directory, and returns its path. Error: it is not only the user's (private.Dir); its
// path is too long for that of a socket in it.
func privateDir() (string, error) {
	dir, err := private.Dir(runtimeDir())
	if err == nil && len(filepath.Join(dir, socketName+verbsSuffix)) > maxSocketPath {
		err = fmt.Errorf("%s is too long for the path of a socket", dir)
	}
	return dir, advise(err)
}

// advise adds to an error of the runtime directory what the user can do.
func advise(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the runtime directory: %w (set XDG_RUNTIME_DIR to a private directory with a short path, in "+
		"which files can be created)", err)
}

// portFiles is in the paths of files whose content changes: those of ports. Carriers read them from the daemon when a
// program opens them, so that the ones in the directory only show that they exist.
const portFiles = "/ports/"

// materialize writes a tree to a directory, which it returns. Trees with the same files share a directory, if those
// that do not change have the same contents.
func materialize(tree []devices.Entry) (string, error) {
	dir, err := privateDir()
	if err != nil {
		return "", err
	}
	tree = append(slices.Clip(tree), functionsOfHost()...)
	h := sha256.New()
	for _, e := range tree {
		data := e.Data
		if strings.Contains(e.Path, portFiles) {
			data = nil
		}
		fmt.Fprintf(h, "%s %t %s %d\n%s", e.Path, e.Dir, e.Link, len(data), data)
	}
	root := filepath.Join(dir, treePrefix+hex.EncodeToString(h.Sum(nil)[:8]))
	now := time.Now()
	if os.Chtimes(root, now, now) == nil { // it exists
		return root, nil
	}
	removeUnused(dir, now)
	temp, err := writeTree(dir, tree)
	if err != nil {
		return "", advise(err)
	}
	defer os.RemoveAll(temp) // it does not exist any more if all is well
	if err := os.Rename(temp, root); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", err
	}
	return root, nil
}

// writeTree writes a tree to a new directory, which it returns.
func writeTree(parent string, tree []devices.Entry) (string, error) {
	temp, err := os.MkdirTemp(parent, tempPrefix)
	if err != nil {
		return "", err
	}
	for _, e := range tree {
		if err := writeEntry(temp, e); err != nil {
			return "", errors.Join(err, os.RemoveAll(temp))
		}
	}
	return temp, nil
}

// functionsOfHost returns links to the PCI functions of the machine, which share a directory with those of the tree. In
// a program of ddkrun, those of a tree are among them.
func functionsOfHost() (list []devices.Entry) {
	entries, _ := os.ReadDir(devices.PCIDevices) // there is none without a PCI bus
	for _, e := range entries {
		name := filepath.Join(devices.PCIDevices, e.Name())
		if target, err := os.Readlink(name); err == nil && !strings.HasPrefix(e.Name(), devices.Domain+":") {
			list = append(list, devices.Entry{Path: name, Link: target})
		}
	}
	return list
}

// treeAge is the time after which a tree that no ddkrun has used is removed.
const treeAge = 7 * 24 * time.Hour

// removeUnused removes trees of earlier daemons.
func removeUnused(dir string, now time.Time) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		isTree := strings.HasPrefix(e.Name(), treePrefix) || strings.HasPrefix(e.Name(), tempPrefix)
		info, err := e.Info()
		if isTree && err == nil && now.Sub(info.ModTime()) > treeAge {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // another ddkrun may do so, too
		}
	}
}

// The beginnings of the names of directories with trees.
const (
	treePrefix = "tree-"
	tempPrefix = "new-"
)

func writeEntry(root string, e devices.Entry) error {
	path := filepath.Join(root, filepath.FromSlash(e.Path))
	if e.Dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if e.Link != "" {
		return os.Symlink(e.Link, path)
	}
	return os.WriteFile(path, e.Data, 0o444)
}
