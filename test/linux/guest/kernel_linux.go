package guest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ciddk/internal/nameorder"
)

// modules are loaded in a guest with an rxe device, in this order, and the first numPlain of them in every guest. A
// name that the kernel has built in needs no file. crc32_generic is the checksum of the ICRC, which rdma_rxe asks the
// crypto API for by name, and there is no modprobe in the guest to answer.
var modules = []string{"virtio_pci", "virtio_console", "virtio_net", "crc32_generic", "rdma_rxe", "rdma_ucm"}

const numPlain = 3

// kernel is an installed kernel image with its modules.
type kernel struct {
	root    string            // "/", or a test's
	release string            // as uname -r
	files   map[string]string // module name to path below moduleDir
	deps    map[string][]string
	builtin map[string]bool
}

func (k *kernel) image() string     { return filepath.Join(k.root, "boot", "vmlinuz-"+k.release) }
func (k *kernel) moduleDir() string { return filepath.Join(k.root, "lib", "modules", k.release) }

// newestKernel returns the newest kernel in /boot that has all modules (Debian's cloud kernels have no RDMA).
func newestKernel(root string) (*kernel, error) {
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, errors.New("no kernel image in /boot")
	}
	slices.SortFunc(images, func(a, b string) int { return -nameorder.Compare(a, b) })
	var why []error
	for _, i := range images {
		k, err := readKernel(root, strings.TrimPrefix(filepath.Base(i), "vmlinuz-"))
		if err == nil {
			_, err = k.order(modules)
		}
		if err == nil {
			return k, nil
		}
		why = append(why, err)
	}
	return nil, errors.Join(why...)
}

// readKernel reads modules.dep and modules.builtin, whose formats kmod's modules.dep(5) and the kernel's kbuild
// documentation give.
func readKernel(root, release string) (*kernel, error) {
	k := &kernel{root: root, release: release, files: map[string]string{}, deps: map[string][]string{},
		builtin: map[string]bool{}}
	err := eachLine(filepath.Join(k.moduleDir(), "modules.dep"), func(l string) {
		file, deps, ok := strings.Cut(l, ":")
		if !ok {
			return
		}
		n := moduleName(file)
		k.files[n] = file
		for d := range strings.FieldsSeq(deps) {
			k.deps[n] = append(k.deps[n], moduleName(d))
		}
	})
	if err == nil {
		err = eachLine(filepath.Join(k.moduleDir(), "modules.builtin"),
			func(l string) { k.builtin[moduleName(l)] = true })
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", release, err)
	}
	return k, nil
}

// order returns the files to load for names, dependencies first, without duplicates.
func (k *kernel) order(names []string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	var visit func(n string) error
	visit = func(n string) error {
		if seen[n] || k.builtin[n] {
			return nil
		}
		seen[n] = true
		f, ok := k.files[n]
		if !ok {
			return fmt.Errorf("kernel %s has no module %s", k.release, n)
		}
		for _, d := range k.deps[n] {
			if err := visit(d); err != nil {
				return err
			}
		}
		files = append(files, f)
		return nil
	}
	for _, n := range names {
		if err := visit(n); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// moduleName returns b_c for kernel/a/b-c.ko.xz. Names may use either separator.
func moduleName(file string) string {
	n, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(n, "-", "_")
}

func eachLine(file string, f func(string)) error {
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		f(s.Text())
	}
	return s.Err()
}
