package direct

import (
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// A Link joins ports of HCAs of this process, as an InfiniBand switch would that never loses, delays or reorders: a
// packet is delivered within the Send that sent it, trains whole, payload where it lies. Ports are found by LID.
// Multicast goes to every port, the sender's own included, and the HCAs select what their QPs have joined. The zero
// value is a link without ports.
type Link struct {
	mu    sync.Mutex
	ports []*Port
	table atomic.Pointer[lidTable]
}

// NewLink returns a link without ports. New adds a port, and the port's Close removes it.
func NewLink() *Link { return new(Link) }

// lidTable is a snapshot of the link; it is replaced, never changed.
type lidTable struct {
	byLID map[ci.LID]*Port
	all   []*Port
}

var emptyTable lidTable

// now returns the current table.
func (l *Link) now() *lidTable {
	if t := l.table.Load(); t != nil {
		return t
	}
	return &emptyTable
}

// rebuild replaces the table. The caller holds l.mu.
func (l *Link) rebuild() {
	t := &lidTable{byLID: make(map[ci.LID]*Port)}
	for _, p := range l.ports {
		lid, lmc := p.lids()
		t.all = append(t.all, p)
		if lid == 0 {
			continue
		}
		for k := range ci.LID(1) << lmc {
			if _, taken := t.byLID[lid+k]; !taken {
				t.byLID[lid+k] = p
			}
		}
	}
	l.table.Store(t)
}

// refresh is rebuild for callers that do not hold l.mu.
func (l *Link) refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rebuild()
}

// add connects a port with the LID want. If that is 0 and assign is set, the port gets the lowest free one.
func (l *Link) add(p *Port, want ci.LID, assign bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := l.now().byLID
	if _, taken := used[want]; want != 0 && taken {
		return fmt.Errorf("direct: LID %#x is taken on this link: give another, or 0 to have one assigned", want)
	}
	if want == 0 && assign {
		for want = 1; used[want] != nil; want++ {
		}
		if want > maxUnicastLID {
			return fmt.Errorf("direct: all %d LIDs of the link are taken", maxUnicastLID)
		}
	}
	n := p.node.Load()
	var manager ci.LID
	if assign {
		manager = want // as if the manager ran here
	}
	n.Assign(n.num, want, p.config.LMC, manager)
	l.ports = append(l.ports, p)
	l.rebuild()
	return nil
}

func (l *Link) remove(p *Port) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range l.ports {
		if q == p {
			l.ports = append(l.ports[:i:i], l.ports[i+1:]...)
			break
		}
	}
	l.rebuild()
}

// byGID returns the port with a GID, or nil.
func (l *Link) byGID(g ci.GID) *Port {
	for _, p := range l.now().all {
		for _, e := range p.Attr().GIDs {
			if e.GID == g {
				return p
			}
		}
	}
	return nil
}

// LID ranges (IBTA volume 1, 4.1.3).
const (
	maxUnicastLID     = 0xbfff
	firstMulticastLID = 0xc000
	permissiveLID     = 0xffff
)
