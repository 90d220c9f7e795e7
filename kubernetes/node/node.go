package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tags.cncf.io/container-device-interface/pkg/cdi"

	"ciddk/internal/private"
)

// Config configures a Node. Dir and CDI have the same paths for the container runtime.
type Config struct {
	Dir  string // of all state; container runtimes execute programs of it
	CDI  string // of CDI devices, which the container runtime reads
	Self string // the program with Launch and Hook as its commands launch and hook
	DDKD string // the program
	Run  string // the program ddkrun
	User int    // that daemons run as; 0: this one
	Log  *slog.Logger
}

// A Node has the claims of a machine.
type Node struct {
	cfg   Config
	cache *cdi.Cache
	lock  *os.File
	wg    sync.WaitGroup // of daemons and containers, while Serve runs

	mu     sync.Mutex // guards the rest
	claims map[string]*claim
	spaces map[uint64]string // network namespaces with a daemon, and their claims
	closed bool
	ends   map[io.Closer]bool // of spawn
}

// toolName is the name of Config.Self for container runtimes.
const toolName = "ddk-dra"

func (n *Node) toolDir() string   { return filepath.Join(n.cfg.Dir, "bin") }
func (n *Node) claimsDir() string { return filepath.Join(n.cfg.Dir, "claims") }

// Open creates the directories of a Node, or opens those of an earlier one. It removes what remains of claims that were
// being created or removed. Error: another process has the directory, or another user can write to it.
func Open(cfg Config) (*Node, error) {
	dir, err := private.Dir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if cfg.Dir = dir; os.Chmod(dir, 0o700) != nil { // sockets in it are open to all users
		return nil, fmt.Errorf("%s: the mode cannot be changed", dir)
	}
	n := &Node{cfg: cfg, claims: map[string]*claim{}, spaces: map[uint64]string{}, ends: map[io.Closer]bool{}}
	if n.lock, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err = n.open(); err != nil {
		return nil, errors.Join(err, n.lock.Close())
	}
	return n, nil
}

func (n *Node) open() (err error) {
	if isHeld, err := tryLock(n.lock); isHeld || err != nil {
		return cmp.Or(err, fmt.Errorf("%s belongs to another process", n.cfg.Dir))
	}
	for _, dir := range []string{n.toolDir(), n.claimsDir(), n.cfg.CDI} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if n.cache, err = cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(n.cfg.CDI)); err != nil {
		return err
	}
	for from, to := range map[string]string{n.cfg.Self: toolName, n.cfg.Run: "ddkrun"} {
		if err := installProgram(from, filepath.Join(n.toolDir(), to)); err != nil {
			return err
		}
	}
	list, err := os.ReadDir(n.claimsDir())
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := n.restore(filepath.Join(n.claimsDir(), e.Name())); err != nil {
			return err
		}
	}
	return n.removeSpecs()
}

// restore takes over the claim of an earlier Node, whose daemon may run.
func (n *Node) restore(dir string) error {
	c, err := load(dir)
	if err != nil {
		n.cfg.Log.Warn("removing what is no claim", "dir", dir, "reason", err)
		return errors.Join(stopProcess(dir), os.RemoveAll(dir))
	}
	n.claims[c.ID] = c
	if space := readSpace(dir); space != 0 && isRunning(dir) {
		n.spaces[space] = c.ID
	}
	return n.cache.WriteSpec(n.spec(c), specName(c.ID))
}

// removeSpecs removes CDI devices of claims that do not exist.
func (n *Node) removeSpecs() error {
	list, err := fs.Glob(os.DirFS(n.cfg.CDI), specName("*"))
	for _, name := range list {
		id := strings.TrimPrefix(strings.TrimSuffix(name, filepath.Ext(name)), specName(""))
		if n.claims[id] == nil {
			err = errors.Join(err, os.Remove(filepath.Join(n.cfg.CDI, name)))
		}
	}
	return err
}

// installProgram copies a program, so that container runtimes find it.
func installProgram(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	temp, err := os.OpenFile(to+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(temp, f)
	return errors.Join(err, temp.Close(), os.Chmod(temp.Name(), 0o755), os.Rename(temp.Name(), to))
}

// Prepare creates a claim. It is no error that it exists. One with other adapters replaces it, unless it has a daemon.
func (n *Node) Prepare(want Claim) error {
	if err := want.check(); err != nil {
		return err
	}
	c := n.find(want.ID, &want)
	defer c.mu.Unlock()
	if !c.equal(&want) {
		if isRunning(c.dir) {
			return fmt.Errorf("claim %s is in use with other adapters: %s", want.ID, strings.Join(c.Adapters, " "))
		}
		c.Claim = want
	}
	if err := c.save(n.cfg.User); err != nil {
		return err
	}
	return n.cache.WriteSpec(n.spec(c), specName(c.ID))
}

// find returns a claim, whose mutex is locked. Without one, it returns a new one with the content of want, or nil.
func (n *Node) find(id string, want *Claim) *claim {
	for {
		n.mu.Lock()
		c := n.claims[id]
		if c == nil && want != nil {
			c = &claim{Claim: *want, dir: filepath.Join(n.claimsDir(), id)}
			n.claims[id] = c
		}
		n.mu.Unlock()
		if c == nil {
			return nil
		}
		if c.mu.Lock(); !c.isRemoved {
			return c
		}
		c.mu.Unlock()
	}
}

// Unprepare removes a claim, its daemon and all its files. It is no error that there is none.
func (n *Node) Unprepare(id string) error {
	c := n.find(id, nil)
	if c == nil {
		return nil
	}
	defer c.mu.Unlock()
	if err := n.cache.RemoveSpec(specName(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(n.stop(c), c.remove()); err != nil {
		return err
	}
	c.isRemoved = true
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.claims, id)
	return nil
}

// Claims returns the claims, in the order of their IDs.
func (n *Node) Claims() []Claim {
	n.mu.Lock()
	claims := slices.Collect(maps.Values(n.claims))
	n.mu.Unlock()
	list := []Claim{}
	for _, c := range claims {
		if c.mu.Lock(); !c.isRemoved {
			list = append(list, c.Claim)
		}
		c.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Claim) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Close waits for calls that are in progress. Daemons go on; a Node that is opened later finds them.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	for c := range n.ends {
		c.Close()
	}
	n.mu.Unlock()
	n.wg.Wait()
	return n.lock.Close()
}

// spawn runs f, which returns when c is closed, as Close does. It closes c after f. It reports false after Close.
func (n *Node) spawn(c io.Closer, f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		c.Close()
		return false
	}
	n.ends[c] = true
	n.wg.Go(func() {
		f()
		n.mu.Lock()
		defer n.mu.Unlock()
		c.Close()
		delete(n.ends, c)
	})
	return true
}
