package ual

import (
	"fmt"
	"os"
	"sync"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
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
	c      *Client
	id     uint64 // its key in Client.pins
	mem    ci.Memory
	offset uint64 // in mem
	addr   uint64
	length uint64
	unpin  func()

	regions int // that are registered over it. Client.mu guards it

	mu         sync.Mutex // held during a copy for the daemon
	isReleased bool
}

// pin refers to length bytes at offset of a memory until release.
func (c *Client) pin(m ci.Memory, offset, length uint64) (*pinned, error) {
	unpin, err := m.Pin()
	if err != nil {
		return nil, err
	}
	p := &pinned{c: c, mem: m, offset: offset, addr: m.Addr() + offset, length: length, unpin: unpin, regions: 1}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	p.id = c.lastID
	c.pins[p.id] = p
	return p, nil
}

// share adds a region. A nil pinned has no memory.
func (p *pinned) share() {
	if p == nil {
		return
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.regions++
}

// release ends the reference with the last region. A nil pinned has none.
func (p *pinned) release() {
	if p == nil {
		return
	}
	p.c.mu.Lock()
	p.regions--
	_, isPinned := p.c.pins[p.id]
	isPinned = isPinned && p.regions == 0
	if isPinned {
		delete(p.c.pins, p.id)
	}
	p.c.mu.Unlock()
	if isPinned {
		p.end()
	}
}

// end ends the reference. It waits for a copy in progress.
func (p *pinned) end() {
	p.mu.Lock()
	p.isReleased = true
	p.mu.Unlock()
	p.unpin()
}

// unpinAll releases all memory after the connection has ended. Unless ended, the daemon may still use the memory, which
// then stays for ever.
func (c *Client) unpinAll(ended bool) {
	c.mu.Lock()
	pins := c.pins
	c.pins = map[uint64]*pinned{}
	c.mu.Unlock()
	if !ended && len(pins) > 0 {
		leaked.Store(c, pins)
		return
	}
	for _, p := range pins {
		p.end()
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
	if d.pin, err = c.pin(m.Memory, m.Offset, n); err != nil {
		return described{}, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Memory.Pin", Err: err}
	}
	if !d.m.Shared {
		d.m.FileOffset = d.pin.id
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
	err = p.ca.c.withCopies(&d, func() error {
		return p.ca.c.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: p.handle, Memory: d.m}, d.files, &r)
	})
	if err != nil {
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
	var pin *pinned
	if from, ok := ci.As[*MR](src); ok {
		pin = from.share()
	}
	var r schema.RegionReply
	if err := p.ca.c.do(schema.CmdRegisterSMR, &schema.RegisterSMR{PD: p.handle, MR: h, IOVA: iova, Access: access},
		nil, &r); err != nil {
		pin.release()
		return nil, err
	}
	return &MR{ca: p.ca, handle: r.Handle, pd: p, region: region(&r.Region), access: access, pinned: pin}, nil
}

// share returns the memory of the region for another region over it.
func (m *MR) share() *pinned {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pinned.share()
	return m.pinned
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
	err := m.ca.c.withCopies(&d, func() error { return m.ca.c.do(schema.CmdModifyMR, req, d.files, &r) })
	if err != nil {
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
