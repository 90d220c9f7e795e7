package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Attach makes the adapters of a claim those of a container: it starts the daemon in the network namespace, unless
// it runs there, and keeps it until the processes of all containers have ended. netns is the namespace, and process a
// pidfd of the container's first process.
func (n *Node) Attach(id string, netns, process *os.File) error {
	c := n.find(id, nil)
	if c == nil {
		return fmt.Errorf("claim %s is not prepared on this node", id)
	}
	defer c.mu.Unlock()
	space, err := inode(netns)
	if err != nil {
		return err
	}
	if err := n.start(c, space, netns); err != nil {
		return err
	}
	pidfd, err := newPidfd(process)
	if err != nil {
		return err
	}
	if !n.spawn(pidfd, func() { n.awaitContainer(c, pidfd) }) {
		return os.ErrClosed
	}
	c.containers++
	return nil
}

// awaitContainer ends the daemon of a claim with the last container.
func (n *Node) awaitContainer(c *claim, process *os.File) {
	if !ended(process) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.containers--; c.containers > 0 || c.isRemoved {
		return
	}
	if err := n.stop(c); err != nil {
		n.cfg.Log.Error("daemon", "claim", c.ID, "error", err)
	}
}

// start starts the daemon of a claim in a network namespace, unless it runs there. c.mu is locked.
func (n *Node) start(c *claim, space uint64, netns *os.File) error {
	running := uint64(0)
	if isRunning(c.dir) {
		running = readSpace(c.dir)
	}
	switch {
	case running == space:
		return nil
	case running != 0 && c.containers > 0:
		return fmt.Errorf("claim %s is used by another pod; give each pod a claim of its own, by "+
			"resourceClaimTemplateName", c.ID)
	}
	if err := n.stop(c); err != nil { // one in a namespace whose containers have ended
		return err
	}
	if err := n.reserve(space, c.ID); err != nil {
		return err
	}
	err := writeFile(filepath.Join(c.dir, spaceFile), strconv.AppendUint(nil, space, 10))
	if err == nil {
		err = n.startDaemon(c, netns)
	}
	if err != nil {
		return errors.Join(err, n.stop(c))
	}
	return nil
}

// reserve makes a network namespace that of a claim. Error: it is that of another one.
func (n *Node) reserve(space uint64, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if other := n.claims[n.spaces[space]]; other != nil && other.ID != id && isRunning(other.dir) {
		return fmt.Errorf("claims %s and %s: a pod has one claim, and its address one adapter; request several "+
			"devices in one claim, with addresses on link=network", other.ID, id)
	}
	n.spaces[space] = id
	return nil
}

// stop ends the daemon of a claim, if it runs. c.mu is locked.
func (n *Node) stop(c *claim) error {
	d, wasRunning := c.daemon, isRunning(c.dir)
	c.daemon = nil
	if err := stopProcess(c.dir); err != nil {
		c.daemon = d
		return err
	}
	if d != nil {
		d.netns.Close()
	}
	if wasRunning {
		n.cfg.Log.Info("daemon stopped", "claim", c.ID)
	}
	n.mu.Lock()
	for space, id := range n.spaces {
		if id == c.ID {
			delete(n.spaces, space)
		}
	}
	n.mu.Unlock()
	if err := os.Remove(filepath.Join(c.dir, spaceFile)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// inode returns the number of a namespace.
func inode(netns *os.File) (uint64, error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(int(netns.Fd()), &st), unix.Fstatfs(int(netns.Fd()), &fs)); err != nil {
		return 0, err
	}
	if fs.Type != unix.NSFS_MAGIC {
		return 0, fmt.Errorf("%s is no namespace", netns.Name())
	}
	return st.Ino, nil
}

// readSpace returns the number of the namespace that the daemon of a directory was started in, or 0.
func readSpace(dir string) uint64 {
	b, err := os.ReadFile(filepath.Join(dir, spaceFile))
	if err != nil {
		return 0
	}
	space, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0
	}
	return space
}
