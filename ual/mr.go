package ual

import (
	"fmt"
	"os"
	"sync"

	"ciddk/ci"
	"ciddk/kproxy/schema"
)

// MR is a memory region of the daemon.
type MR struct {
	ci.UnimplementedMR
	ca     *CA
	handle schema.Handle

	mu     sync.Mutex
	pd     ci.PD
	region ci.Region
	access ci.Access
	pinned *pinned
	ended  bool // destroyed
}

var (
	_ ci.MR         = (*MR)(nil)
	_ ci.UserRegion = (*MR)(nil)
)

// pinned is memory that is registered. The client refers to it until it is not registered any more, so that it stays
// where it is, even if the program has no reference to the MR.
type pinned struct {
	c     *Client
	mem   ci.Memory
	unpin func()
}

// pin refers to memory until release.
func (c *Client) pin(m ci.Memory) (*pinned, error) {
	unpin, err := m.Pin()
	if err != nil {
		return nil, err
	}
	p := &pinned{c: c, mem: m, unpin: unpin}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pins[p] = struct{}{}
	return p, nil
}

// release ends the reference. A nil pinned has none.
func (p *pinned) release() {
	if p == nil {
		return
	}
	p.c.mu.Lock()
	_, ok := p.c.pins[p]
	delete(p.c.pins, p)
	p.c.mu.Unlock()
	if ok {
		p.unpin()
	}
}

// unpinAll releases all memory after the connection has ended. Unless ended, the daemon may still use the memory, which
// then stays for ever.
func (c *Client) unpinAll(ended bool) {
	c.mu.Lock()
	pins := c.pins
	c.pins = map[*pinned]struct{}{}
	c.mu.Unlock()
	if !ended && len(pins) > 0 {
		leaked.Store(c, pins)
		return
	}
	for p := range pins {
		p.unpin()
	}
}

// leaked is the memory of clients whose daemon may still use it.
var leaked sync.Map

// described is the memory of a registration as a request has it.
type described struct {
	m     schema.Memory
	files []*os.File
	pin   *pinned
}

// describe validates the memory of a registration. Status: InvalidParameter.
func (c *Client) describe(verb string, m *ci.MRCreate) (d described, err error) {
	bad := func(format string, args ...any) (described, error) {
		return described{}, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
	}
	if ci.IsNil(m.Memory) {
		return bad("no memory")
	}
	size, n := m.Memory.Len(), m.Length
	if m.Offset > size || n > size-m.Offset {
		return bad("%d bytes at offset %d of a memory of %d bytes", n, m.Offset, size)
	}
	if n == 0 {
		n = size - m.Offset
	}
	d.m = schema.Memory{Addr: m.Memory.Addr() + m.Offset, Length: n, IOVA: m.IOVA, Access: m.Access}
	if f, ok := m.Memory.(ci.FileMemory); ok {
		file, off := f.File()
		d.files, d.m.Shared, d.m.FileOffset = []*os.File{file}, true, uint64(off)+m.Offset
	} else if at, ok := ownMemory(m.Memory, m.Offset, n); !ok {
		return bad("byte %d of the memory is not at its address in this process, so the daemon cannot reach it", at)
	}
	if d.pin, err = c.pin(m.Memory); err != nil {
		return described{}, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Memory.Pin", Err: err}
	}
	return d, nil
}

// ownMemory reports whether n bytes at off are memory of this process at the addresses that the memory states. at is
// the first byte that is not.
func ownMemory(m ci.Memory, off, n uint64) (at uint64, ok bool) {
	for end := off + n; off < end; {
		b := m.Slice(off, end-off)
		if len(b) == 0 || ci.Bytes(b).Addr() != m.Addr()+off {
			return off, false
		}
		off += uint64(len(b))
	}
	return 0, true
}

// RegisterMR registers memory of this process.
func (p *PD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	d, err := p.ca.c.describe("PD.RegisterMR", &c)
	if err != nil {
		return nil, err
	}
	var r schema.RegionReply
	if err := p.ca.c.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: p.handle, Memory: d.m}, d.files, &r); err != nil {
		d.pin.release()
		return nil, err
	}
	return &MR{ca: p.ca, handle: r.Handle, pd: p, region: region(&r.Region), access: c.Access,
		pinned: d.pin}, nil
}

// RegisterSMR registers the pages of a region a second time.
func (p *PD) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	const verb = "PD.RegisterSMR"
	h := handleAs[*MR](p.ca, src)
	if h == 0 {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidMRHandle, Detail: "src is not an object of this CA"}
	}
	var r schema.RegionReply
	if err := p.ca.c.do(schema.CmdRegisterSMR, &schema.RegisterSMR{PD: p.handle, MR: h, IOVA: iova, Access: access},
		nil, &r); err != nil {
		return nil, err
	}
	return &MR{ca: p.ca, handle: r.Handle, pd: p, region: region(&r.Region), access: access}, nil
}

func region(r *schema.Region) ci.Region {
	return ci.Region{Addr: r.Addr, Length: r.Length, LKey: r.LKey, RKey: r.RKey}
}

// Destroy deregisters the region.
func (m *MR) Destroy() error {
	if err := m.ca.c.destroy(m.handle); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pinned.release()
	m.pinned, m.ended = nil, true
	return nil
}

// UserRegion implements ci.UserRegion.
func (m *MR) UserRegion() (pd any, access ci.Access, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u, ok := ci.As[ci.UserObject](m.pd); ok {
		pd = u.UserHandle()
	}
	return pd, m.access, !m.ended
}

// Region returns the address range and keys.
func (m *MR) Region() ci.Region {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.region
}

// Query returns the attributes.
func (m *MR) Query() (ci.MRAttr, error) {
	var r schema.QueryMRReply
	if err := m.ca.c.do(schema.CmdQueryMR, &schema.MR{MR: m.handle}, nil, &r); err != nil {
		return ci.MRAttr{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return ci.MRAttr{Region: region(&r.Region), PD: m.pd, Access: r.Access, LocalLo: r.LocalLo, LocalHi: r.LocalHi,
		RemoteLo: r.RemoteLo, RemoteHi: r.RemoteHi}, nil
}

// Modify changes the region.
func (m *MR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	const verb = "MR.Modify"
	req := &schema.ModifyMR{MR: m.handle, Set: uint32(set), Memory: schema.Memory{Access: c.Access}}
	if set&ci.MRFieldPD != 0 {
		if req.PD = handleAs[*PD](m.ca, pd); req.PD == 0 {
			return &ci.Error{Verb: verb, Status: ci.InvalidPDHandle, Detail: "pd is not an object of this CA"}
		}
	}
	var d described
	if set&ci.MRFieldMemory != 0 {
		var err error
		if d, err = m.ca.c.describe(verb, &c); err != nil {
			return err
		}
		req.Memory = d.m
	}
	var r schema.RegionReply
	if err := m.ca.c.do(schema.CmdModifyMR, req, d.files, &r); err != nil {
		d.pin.release()
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.region = region(&r.Region)
	if set&ci.MRFieldPD != 0 {
		m.pd = pd
	}
	if set&ci.MRFieldAccess != 0 {
		m.access = c.Access
	}
	if d.pin != nil {
		m.pinned.release()
		m.pinned = d.pin
	}
	return nil
}
