package guest

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// cpio writes the "newc" archive that the kernel unpacks as its first root
// (Documentation/driver-api/early-userspace/buffer-format). Everything belongs to root and has time 0, so that equal
// contents are equal bytes. The first error sticks.
type cpio struct {
	w    io.Writer
	dirs map[string]bool
	off  int // bytes written
	ino  int
	err  error
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
	cpioLink = 0o120000
)

func newCPIO(w io.Writer) *cpio { return &cpio{w: w, dirs: map[string]bool{".": true}} }

// dir adds a directory and its missing parents.
func (c *cpio) dir(name string) {
	name = clean(name)
	if c.dirs[name] {
		return
	}
	c.dir(path.Dir(name))
	c.dirs[name] = true
	c.entry(name, cpioDir|0o755, nil)
}

// file adds a file with permissions mode, and its missing parents.
func (c *cpio) file(name string, mode uint32, data []byte) {
	name = clean(name)
	c.dir(path.Dir(name))
	c.entry(name, cpioFile|mode, data)
}

// link adds a symbolic link.
func (c *cpio) link(name, target string) {
	name = clean(name)
	c.dir(path.Dir(name))
	c.entry(name, cpioLink|0o777, []byte(target))
}

// close ends the archive.
func (c *cpio) close() error {
	c.ino = -1
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

func (c *cpio) entry(name string, mode uint32, data []byte) {
	c.ino++
	// magic, inode, mode, uid, gid, links, mtime, size, device and rdevice (major, minor), length of the name with its
	// NUL, checksum
	c.put(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0))
	c.put([]byte(name + "\x00"))
	c.pad()
	c.put(data)
	c.pad()
}

// pad aligns to 4 bytes from the start of the archive.
func (c *cpio) pad() { c.put(make([]byte, -c.off&3)) }

func (c *cpio) put(b []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(b)
	c.off += n
	c.err = err
}

func clean(name string) string { return path.Clean(strings.TrimPrefix(name, "/")) }
