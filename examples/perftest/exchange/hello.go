package exchange

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"ciddk/ci"
)

// Version is the version that this package sends. It is the perftest release whose messages the package implements.
const Version = "6.06"

// Limits of the peer's values.
const (
	versionLen     = 16
	oldest         = 5.70
	otherStructure = 6.29 // the first version with longer destinations over RDMA CM
	maxCycleBuffer = 16 << 20
	maxCacheLine   = 4096
)

// A Hello holds the properties of a side that are exchanged before queue pairs.
type Hello struct {
	Version     string // of the peer
	CycleBuffer int    // bytes
	CacheLine   int    // bytes
	MTU         ci.MTU
}

func encodeVersion() []byte {
	b := make([]byte, versionLen)
	copy(b, Version)
	return b
}

// parseVersion parses a version, and rejects versions with other messages. structures is true if destinations are
// structures.
func parseVersion(b []byte, structures bool) (string, error) {
	text, _, ok := bytes.Cut(b, []byte{0})
	n, err := strconv.ParseFloat(string(text), 64)
	if !ok || err != nil || len(bytes.Trim(text, "0123456789.")) > 0 {
		return "", fmt.Errorf("exchange: the peer sent %q, not a version: is it perftest?", b)
	}
	if !(n >= oldest) {
		return "", fmt.Errorf("exchange: the peer has version %s of perftest, want at least %.2f", text, oldest)
	}
	if structures && n >= otherStructure {
		return "", fmt.Errorf("exchange: the peer has version %s of perftest, and over RDMA CM only those before "+
			"%.2f have the messages of %s: use TCP, without -R and -z",
			text, otherStructure, Version)
	}
	return string(text), nil
}

// parseSize parses a number of bytes from 1 to limit.
func parseSize(name string, b []byte, limit uint32) (int, error) {
	n := binary.BigEndian.Uint32(b)
	if n < 1 || n > limit {
		return 0, fmt.Errorf("exchange: the peer's %s has %d bytes, want 1 to %d", name, n, limit)
	}
	return int(n), nil
}

func encodeMTU(m ci.MTU) []byte { return []byte{'0' + byte(m), 0} }

func parseMTU(b []byte) (ci.MTU, error) {
	if len(b) != 2 || b[0] < '0'+byte(ci.MTU256) || b[0] > '0'+byte(ci.MTU4096) || b[1] != 0 {
		return 0, fmt.Errorf("exchange: the peer sent %q, not the code of a path MTU", b)
	}
	return ci.MTU(b[0] - '0'), nil
}
