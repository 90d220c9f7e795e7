package frame

import (
	"errors"
	"fmt"

	"ciddk/ci"
)

// Config describes a Port. Carrier and MAC are required.
type Config struct {
	// Carrier moves the frames. New takes it over: it closes it when it fails, and Port.Close closes it later.
	Carrier Carrier
	// MAC is the port's address.
	MAC [6]byte
	// GIDs is the GID table: RoCEv1 and RoCEv2 entries. SetGIDs replaces it. The GID of an IPv4 address is
	// ::ffff:a.b.c.d.
	GIDs []ci.GIDEntry
	// MTU is the largest path MTU; 0 is 1024 bytes, which an interface with the usual MTU of 1500 bytes can receive.
	MTU ci.MTU
	// Window is the most bytes that a QP has on the way (rvt.Hints.Window); 0 is 256 KiB.
	Window int
	// Resolve makes the port an IP host that resolves addresses and answers for its own: see the package comment.
	Resolve bool
}

const (
	defaultWindow = 256 << 10
	// MaxGIDs is the most entries of a GID table.
	MaxGIDs = 128
)

// check sets defaults.
func (c *Config) check() error {
	switch {
	case c.Carrier == nil:
		return errors.New("frame: Config.Carrier is nil: use Hub.Join, Dgram, Stream or OpenTAP")
	case c.MAC[0]&1 != 0 || c.MAC == [6]byte{}:
		return fmt.Errorf("frame: MAC %x: want an address of one station", c.MAC)
	case c.MTU > ci.MTU4096:
		return fmt.Errorf("frame: MTU code %d: want 1 (256 bytes) to 5 (4096), or 0", c.MTU)
	case c.Window < 0:
		return fmt.Errorf("frame: Window %d is negative: give bytes, or 0 for %d", c.Window, defaultWindow)
	}
	if c.MTU == 0 {
		c.MTU = ci.MTU1024
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	return checkGIDs(c.GIDs)
}

func checkGIDs(list []ci.GIDEntry) error {
	if len(list) > MaxGIDs {
		return fmt.Errorf("frame: a GID table of %d entries: at most %d", len(list), MaxGIDs)
	}
	for i, e := range list {
		if e.GID != (ci.GID{}) && e.Type != ci.GIDRoCEv1 && e.Type != ci.GIDRoCEv2 {
			return fmt.Errorf("frame: entry %d of the GID table has type %d: want RoCEv1 or RoCEv2", i, e.Type)
		}
	}
	return nil
}
