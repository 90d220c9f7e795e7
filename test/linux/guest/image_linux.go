package guest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// imageFile is a file of the guest's root, with the content of a file of the host or with given data.
type imageFile struct {
	source string
	mode   uint32
	data   []byte // when source is empty
	target string // of a symbolic link
}

// image has the files of the guest's root, by path.
type image map[string]imageFile

// libraryDirs lists the directories of Debian's dynamic loader on amd64, most specific first.
var libraryDirs = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64", "lib", "usr/lib"}

// buildImage returns the path of an initramfs for kernel k with the agent and what a guest has beyond that. Images are
// kept in the user's cache directory under a name that depends on all that went into them; ones not used for a week go
// when a new one is made.
func buildImage(ctx context.Context, k *kernel, c *Config) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil { // no HOME, as in a service
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "ciddk-guest")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	agent, err := buildAgent(ctx, dir)
	if err != nil {
		return "", err
	}
	im, err := collect(k, agent, c)
	if err != nil {
		return "", err
	}
	key, err := im.key()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, key+".cpio")
	now := time.Now()
	if err := os.Chtimes(file, now, now); err == nil {
		return file, nil
	}
	prune(dir, now.Add(-7*24*time.Hour))
	return file, im.write(file)
}

// buildAgent compiles the agent. The cache of the go command makes repeated calls cheap.
func buildAgent(ctx context.Context, dir string) ([]byte, error) {
	tmp, err := os.MkdirTemp(dir, "agent-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "agent")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out,
		"ciddk/test/linux/guest/agent")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-buildvcs=false")
	if b, err := c.CombinedOutput(); err != nil {
		if ctx.Err() != nil { // the compiler was killed: say why
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("building the guest's agent: %w: %s", err, b)
	}
	return os.ReadFile(out)
}

func collect(k *kernel, agent []byte, c *Config) (image, error) {
	im := image{
		"/init":              {mode: 0o755, data: agent},
		"/bin/agent":         {target: "/init"},
		"/etc/passwd":        {mode: 0o644, data: []byte("root:x:0:0:root:/:/bin/false\n")},
		"/etc/hosts":         {mode: 0o644, data: []byte("127.0.0.1 localhost\n")},
		"/etc/nsswitch.conf": {mode: 0o644, data: []byte("hosts: files\n")},
	}
	loaded := modules
	if c.NoRXE {
		loaded = modules[:numPlain]
	}
	order, err := k.order(append(slices.Clone(loaded), c.Modules...))
	if err != nil {
		return nil, err
	}
	loadable, err := k.order(c.Loadable)
	if err != nil {
		return nil, err
	}
	for _, m := range loadable {
		im[modulePath(m)] = imageFile{source: filepath.Join(k.moduleDir(), m), mode: 0o644}
	}
	list := &strings.Builder{}
	for _, m := range order {
		p := modulePath(m)
		fmt.Fprintln(list, p)
		im[p] = imageFile{source: filepath.Join(k.moduleDir(), m), mode: 0o644}
	}
	im["/etc/modules"] = imageFile{mode: 0o644, data: []byte(list.String())}

	for _, p := range append(slices.Sorted(maps.Keys(programs)), c.Programs...) {
		f, err := exec.LookPath(p)
		if err != nil {
			return nil, err
		}
		name := "/usr/bin/" + filepath.Base(p)
		if err := im.addELF(name, f); err != nil {
			return nil, err
		}
		if p != filepath.Base(p) {
			// A built program is identified by its bytes, because its path and time change with every build.
			data, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			im[name] = imageFile{mode: 0o755, data: data}
		}
	}
	// Programs load these by name at run time: the verbs provider, and libgcc_s for pthread_exit.
	for _, name := range append([]string{"rxe"}, c.Providers...) {
		path, err := provider("/", name)
		if err != nil {
			return nil, err
		}
		if err := im.addELF(path, path); err != nil {
			return nil, err
		}
		im["/etc/libibverbs.d/"+name+".driver"] = imageFile{mode: 0o644, data: []byte("driver " + name + "\n")}
	}
	for p, source := range c.Files {
		im[p] = imageFile{source: source, mode: 0o644}
	}
	return im, im.addLibrary("libgcc_s.so.1")
}

// modulePath returns the path of a module in the guest.
func modulePath(file string) string { return "/lib/modules/" + file }

// provider returns the path of a driver of libibverbs, whose path is built into the library: the real directory (/lib
// is a link on the host, and is not in the guest), and a name with the version of the ABI.
func provider(root, name string) (string, error) {
	for _, d := range libraryDirs {
		m, err := filepath.Glob(filepath.Join(root, d, "libibverbs", "lib"+name+"-rdmav*.so"))
		if err != nil || len(m) == 0 {
			continue
		}
		real, err := filepath.EvalSymlinks(filepath.Dir(m[0]))
		if err != nil {
			return "", err
		}
		rel, err := filepath.Rel(root, real)
		return filepath.Join("/", rel, filepath.Base(m[0])), err
	}
	return "", fmt.Errorf("lib%s, a verbs provider, is not installed", name)
}

// addELF adds a program or library at path p, with its loader and the libraries that it needs, recursively.
func (im image) addELF(p, source string) error {
	im[p] = imageFile{source: source, mode: 0o755}
	f, err := elf.Open(source)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	defer f.Close()
	for _, ph := range f.Progs {
		if ph.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, ph.Filesz)
		if _, err := ph.ReadAt(b, 0); err != nil {
			return fmt.Errorf("%s: interpreter: %w", source, err)
		}
		loader := strings.TrimRight(string(b), "\x00")
		im[loader] = imageFile{source: loader, mode: 0o755}
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	dirs, err := f.DynString(elf.DT_RUNPATH)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	for _, l := range libs {
		if err := im.addLibrary(l, dirs...); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	return nil
}

// addLibrary adds a library to /lib, which the loader always searches. The library is in one of libraryDirs or dirs.
func (im image) addLibrary(name string, dirs ...string) error {
	p := "/lib/" + name
	if _, ok := im[p]; ok {
		return nil
	}
	for _, d := range slices.Concat(libraryDirs, dirs) {
		source := filepath.Join("/", d, name)
		if _, err := os.Stat(source); err == nil {
			return im.addELF(p, source)
		}
	}
	return fmt.Errorf("library %s not found", name)
}

// key returns a name for the contents of an image. It identifies files of the host by path, size and modification time.
func (im image) key() (string, error) {
	h := sha256.New()
	for _, p := range slices.Sorted(maps.Keys(im)) {
		f := im[p]
		fmt.Fprintf(h, "%q %q %o %q %x\n", p, f.source, f.mode, f.target, sha256.Sum256(f.data))
		if f.source != "" {
			st, err := os.Stat(f.source)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, st.Size(), st.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// write writes the archive under a temporary name first, because other tests may build the same image. It does not
// compress, because decompression under TCG costs more than reading.
func (im image) write(file string) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "image-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once renamed
	defer tmp.Close()
	b := bufio.NewWriterSize(tmp, 1<<20)
	c := newCPIO(b)
	for _, p := range slices.Sorted(maps.Keys(im)) {
		f := im[p]
		switch {
		case f.target != "":
			c.link(p, f.target)
		case f.source != "":
			data, err := os.ReadFile(f.source)
			if err != nil {
				return err
			}
			c.file(p, f.mode, data)
		default:
			c.file(p, f.mode, f.data)
		}
	}
	if err := c.close(); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// prune removes images and files of killed builds that are older than t. Another process may remove them at the same
// time.
func prune(dir string, t time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && (e.IsDir() || info.Mode()&fs.ModeType == 0) &&
			info.ModTime().Before(t) {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
