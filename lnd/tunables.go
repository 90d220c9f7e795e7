package lnd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tunables are the module parameters of ko2iblnd that have a meaning here, with the same names. Times are in seconds.
// DefaultTunables returns their defaults.
type Tunables struct {
	Service               int // service: port in space TCP of RDMA CM
	Cksum                 int // cksum: 1 sends checksums; received ones are always checked
	Timeout               int // timeout: of connecting, of transfers, and of a queue that does not move
	ConnsPerPeer          int // conns_per_peer: connections that this end makes to a peer
	Credits               int // credits: transfers of this node in progress; more wait
	PeerCredits           int // peer_credits: messages in flight to a peer in each direction
	PeerCreditsHiw        int // peer_credits_hiw: credits that a NOOP returns; 0: half of peer_credits
	ConcurrentSends       int // concurrent_sends: messages being sent to a peer; 0: three quarters of peer_credits
	RetryCount            int // retry_count: of the transport
	RNRRetryCount         int // rnr_retry_count: of the transport, 7 is without limit
	Keepalive             int // keepalive: a peer to which nothing was sent for so long gets a NOOP; 0: none
	UsePrivilegedPort     int // use_privileged_port: 1 connects from port 1023
	RequirePrivilegedPort int // require_privileged_port: 1 rejects peers with a port above 1023
}

// A tunable describes a field of Tunables.
type tunable struct {
	field              func(*Tunables) *int
	usual, least, most int
}

var tunables = map[string]tunable{
	"service":                 {func(t *Tunables) *int { return &t.Service }, 987, 1, 65535},
	"cksum":                   {func(t *Tunables) *int { return &t.Cksum }, 0, 0, 1},
	"timeout":                 {func(t *Tunables) *int { return &t.Timeout }, 50, 1, 1 << 20},
	"conns_per_peer":          {func(t *Tunables) *int { return &t.ConnsPerPeer }, 1, 1, 127},
	"credits":                 {func(t *Tunables) *int { return &t.Credits }, 256, 1, 1 << 16},
	"peer_credits":            {func(t *Tunables) *int { return &t.PeerCredits }, 8, minDepth, 255},
	"peer_credits_hiw":        {func(t *Tunables) *int { return &t.PeerCreditsHiw }, 0, 0, 254},
	"concurrent_sends":        {func(t *Tunables) *int { return &t.ConcurrentSends }, 0, 0, 510},
	"retry_count":             {func(t *Tunables) *int { return &t.RetryCount }, 5, 0, 7},
	"rnr_retry_count":         {func(t *Tunables) *int { return &t.RNRRetryCount }, 6, 0, 7},
	"keepalive":               {func(t *Tunables) *int { return &t.Keepalive }, 100, 0, 1 << 20},
	"use_privileged_port":     {func(t *Tunables) *int { return &t.UsePrivilegedPort }, 1, 0, 1},
	"require_privileged_port": {func(t *Tunables) *int { return &t.RequirePrivilegedPort }, 0, 0, 1},
}

// DefaultTunables returns the defaults of ko2iblnd.
func DefaultTunables() (t Tunables) {
	for _, u := range tunables {
		*u.field(&t) = u.usual
	}
	return t
}

// Set sets a tunable by its name in ko2iblnd. text is NAME=VALUE. Errors: an unknown name, no number.
func (t *Tunables) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	u, ok := tunables[name]
	v, err := strconv.Atoi(value)
	if !ok || err != nil {
		return fmt.Errorf("lnd: tunable %q: want NAME=NUMBER with one of the names %s", text,
			strings.Join(slices.Sorted(maps.Keys(tunables)), ", "))
	}
	*u.field(t) = v
	return t.check()
}

// check returns an error if a value is out of range.
func (t *Tunables) check() error {
	for _, name := range slices.Sorted(maps.Keys(tunables)) {
		u := tunables[name]
		if v := *u.field(t); v < u.least || v > u.most {
			return fmt.Errorf("lnd: tunable %s is %d, want %d to %d", name, v, u.least, u.most)
		}
	}
	return nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// high returns the number of owed credits that a NOOP returns, of a connection of some depth.
func (t *Tunables) high(depth int, version uint16) int {
	if version == version1 {
		return max(1, min(7, depth-1))
	}
	hiw := min(max(t.PeerCreditsHiw, t.PeerCredits/2), t.PeerCredits-1)
	return max(1, depth*hiw/t.PeerCredits)
}

// sends returns the number of messages that may be sent at a time, of a connection of some depth.
func (t *Tunables) sends(depth int) int {
	if t.ConcurrentSends == 0 {
		return max(2, depth*3/4) // with the defaults, a connection then has 96 KiB of buffers
	}
	return max(1, min(max(t.ConcurrentSends, t.PeerCredits/2), 2*t.PeerCredits)*depth/t.PeerCredits)
}
