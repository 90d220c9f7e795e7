package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Claim is a request for adapters, which containers of one pod share.
type Claim struct {
	ID         string   `json:"id"`                   // of a ResourceClaim, its UID; also the name of the CDI device
	Adapters   []string `json:"adapters"`             // settings, as for ddkd serve --adapter
	DeviceName string   `json:"deviceName,omitempty"` // beginning of the names of devices; "": that of ddkd
}

// maxAdapters is the number of adapters of a claim.
const maxAdapters = 16

var (
	validID   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	validName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$|^$`)
)

// check validates a claim.
func (c *Claim) check() error {
	switch {
	case !validID.MatchString(c.ID):
		return fmt.Errorf("claim %q: want an ID of at most 63 small letters, digits and hyphens", c.ID)
	case len(c.Adapters) == 0 || len(c.Adapters) > maxAdapters:
		return fmt.Errorf("claim %s: %d adapters: want 1 to %d", c.ID, len(c.Adapters), maxAdapters)
	case !validName.MatchString(c.DeviceName):
		return fmt.Errorf("claim %s: device name %q: want at most 31 small letters, digits and underscores", c.ID,
			c.DeviceName)
	}
	for _, a := range c.Adapters {
		if !strings.Contains(a, "=") || strings.ContainsAny(a, "\x00\n") {
			return fmt.Errorf("claim %s: adapter %q: want KEY=VALUE,…", c.ID, a)
		}
	}
	return nil
}

func (c *Claim) equal(d *Claim) bool {
	return c.ID == d.ID && slices.Equal(c.Adapters, d.Adapters) && c.DeviceName == d.DeviceName
}

// The names in the directory of a claim.
const (
	claimFile = "claim.json" // its presence makes the directory that of a claim
	spaceFile = "space"      // number of the network namespace that the daemon is in, for a Node that is opened again
	lockFile  = "lock"       // locked by the daemon, whose process is in it
	logFile   = "log"        // of the daemon
	podDir    = "pod"        // what containers mount: what ddkrun --install writes, and
	runDir    = "run"        // in it, the directory of the daemon with its sockets
	socket    = "socket"
)

// claim is a claim of a Node.
type claim struct {
	Claim
	dir string

	mu         sync.Mutex // guards the rest, and is held while a daemon starts or ends
	daemon     *daemon    // nil: none that this process has started
	containers int        // with this claim, whose ends this process awaits
	isRemoved  bool
}

// load reads the claim of a directory. Error: fs.ErrNotExist if the directory is what remains of a claim.
func load(dir string) (*claim, error) {
	b, err := os.ReadFile(filepath.Join(dir, claimFile))
	if err != nil {
		return nil, err
	}
	c := &claim{dir: dir}
	if err := json.Unmarshal(b, &c.Claim); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, claimFile), err)
	}
	if c.ID != filepath.Base(dir) {
		return nil, fmt.Errorf("%s is of another claim, %q", dir, c.ID)
	}
	return c, c.check()
}

// save creates the directory of a claim. The claim exists when save returns.
func (c *claim) save(user int) error {
	pod := filepath.Join(c.dir, podDir)
	run := filepath.Join(pod, runDir)
	if err := os.MkdirAll(run, 0o755); err != nil {
		return err
	}
	if user != 0 {
		if err := os.Chown(run, user, user); err != nil {
			return err
		}
	}
	b, err := json.Marshal(c.Claim)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(c.dir, claimFile), b)
}

// remove removes what a claim consists of.
func (c *claim) remove() error {
	if err := os.Remove(filepath.Join(c.dir, claimFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(c.dir)
}

// writeFile writes a file that exists with all of its content or not at all.
func writeFile(path string, b []byte) error {
	temp := path + ".tmp"
	return errors.Join(os.WriteFile(temp, b, 0o600), os.Rename(temp, path))
}
