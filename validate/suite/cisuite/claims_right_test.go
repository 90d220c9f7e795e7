package cisuite_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
)

// offered are capabilities that the reference HCA lacks and the extended driver has. With them the cases that prove
// these capabilities can be seen to pass.
const offered = ci.CapLSO | ci.CapIPChecksum | ci.CapModifyWRDepth | ci.CapUser | ci.CapVendorCall | ci.CapSLForIP

// extended returns the reference HCA over a network in memory, with two ports each, and with the offered capabilities
// implemented in front of it.
func extended() validate.Driver {
	return validate.Driver{Name: "extended", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		var made []*reference.HCA
		t := &validate.Target{VendorCall: &validate.VendorCommand{Command: 7, In: []byte("abc"), Want: []byte("cba")}}
		t.Close = func(context.Context) error {
			var errs []error
			for _, h := range made {
				errs = append(errs, h.Close())
			}
			return errors.Join(errs...)
		}
		t.SetLink = func(up bool) error { return made[0].SetLink(1, up) }
		for i := range 2 {
			var ports []rvt.Port
			for k := range 2 {
				ports = append(ports,
					testenv.Must(sim.New(n, sim.Config{Addr: netip.AddrFrom4([4]byte{10, 0, byte(k), byte(i + 1)})})))
			}
			h, err := reference.New(reference.Config{GUID: ci.GUID(0x100 + i<<8), Ports: ports})
			if err != nil {
				return nil, errors.Join(err, t.Close(context.Background()))
			}
			made = append(made, h)
			t.HCAs = append(t.HCAs, extend(h))
		}
		return t, nil
	}}
}

// extension is the state of one adapter.
type extension struct {
	mu    sync.Mutex
	bytes map[ci.Key]held
	large map[uint64]bool // ids of outstanding large sends
}

type held struct {
	region ci.Region
	memory ci.Memory
}

func extend(h ci.HCA) ci.HCA {
	x := &extension{bytes: map[ci.Key]held{}, large: map[uint64]bool{}}
	return ciwrap.Wrap(h, ciwrap.Layer{
		CA: func(c ci.CA) ci.CA { return &extendedCA{CA: ciwrap.CA{CA: c}} },
		MR: func(m ci.MR, o ciwrap.MROrigin) ci.MR {
			if o.Kind == ciwrap.MRVirtual {
				x.mu.Lock()
				x.bytes[m.Region().LKey] = held{m.Region(), o.Virtual.Memory}
				x.mu.Unlock()
			}
			return m
		},
		QPCreate: func(c ci.QPCreate) ci.QPCreate {
			if c.Type == ci.UD {
				c.MaxInline = max(c.MaxInline, 512)
			}
			if c.Type == ci.RC {
				c.SendDepth = max(c.SendDepth, 64)
			}
			return c
		},
		QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return &extendedQP{QP: ciwrap.QP{QP: q}, x: x} },
		CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return extendedCQ{ciwrap.CQ{CQ: c}, x} },
	})
}

type extendedCA struct {
	ciwrap.CA
	users atomic.Int32
}

func (c *extendedCA) Destroy() error {
	if c.users.Load() > 0 {
		return ci.ResourceBusy
	}
	return c.CA.Destroy()
}

func (c *extendedCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.Caps |= offered
	}
	return a, err
}

func (c *extendedCA) SLForIP(port uint8, ipPort uint16) (ci.SL, error) {
	if port < 1 || port > 2 {
		return 0, ci.InvalidPort
	}
	return ci.SL(ipPort & 7), nil
}

func (c *extendedCA) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	switch {
	case op == nil || op.Command != 7:
		return ci.InvalidParameter
	case len(objects) > 0:
		return ci.InvalidHandle
	}
	slices.Reverse(op.Data)
	op.N, op.Status = len(op.Data), 0
	return nil
}

func (c *extendedCA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	if p == nil || ub == nil || ub.Command != 0 {
		return nil, ci.InvalidParameter
	}
	c.users.Add(1)
	return &extendedUser{ca: c}, nil
}

type extendedUser struct {
	ca       *extendedCA
	pds      atomic.Int32
	isClosed atomic.Bool
}

// extendedPD is a PD of a process.
type extendedPD struct {
	ciwrap.PD
	user *extendedUser
}

func (p extendedPD) Destroy() error {
	err := p.PD.Destroy()
	if err == nil {
		p.user.pds.Add(-1)
	}
	return err
}

func (u *extendedUser) AllocatePD(typ ci.PDType, _ *ci.UserBuffer) (ci.PD, error) {
	if u.isClosed.Load() {
		return nil, ci.InvalidCAHandle
	}
	p, err := u.ca.AllocatePD(typ)
	if err != nil {
		return nil, err
	}
	u.pds.Add(1)
	return extendedPD{ciwrap.PD{PD: p}, u}, nil
}

func (u *extendedUser) VendorCall(op *ci.VendorOp, _ *ci.UserBuffer, objects ...ci.Object) error {
	if u.isClosed.Load() {
		return ci.InvalidCAHandle
	}
	return u.ca.VendorCall(op, objects...)
}

func (u *extendedUser) Destroy() error {
	switch {
	case u.isClosed.Load():
		return ci.InvalidCAHandle
	case u.pds.Load() > 0:
		return ci.ResourceBusy
	}
	u.isClosed.Store(true)
	u.ca.users.Add(-1)
	return nil
}

type extendedQP struct {
	ciwrap.QP
	x     *extension
	mu    sync.Mutex
	depth int
}

func (q *extendedQP) Modify(set ci.QPField, a ci.QPAttr) error {
	err := q.QP.Modify(set&^ci.QPFieldSendDepth, a)
	if err == nil && set&ci.QPFieldSendDepth != 0 {
		q.mu.Lock()
		q.depth = a.SendDepth
		q.mu.Unlock()
	}
	return err
}

func (q *extendedQP) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	q.mu.Lock()
	defer q.mu.Unlock()
	a.SendDepth = max(a.SendDepth, q.depth)
	return a, err
}

// gather returns a copy of the bytes of a scatter/gather list.
func (x *extension) gather(sgl []ci.SGE) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []byte
	for _, g := range sgl {
		h := x.bytes[g.LKey]
		out = append(out, h.memory.Slice(g.Addr-h.region.Addr, uint64(g.Length))...)
	}
	return out
}

func (q *extendedQP) PostSend(wrs []ci.SendWR) (int, error) {
	for i, w := range wrs {
		list := []ci.SendWR{w}
		switch {
		case w.Op == ci.OpLSO:
			list = q.pieces(w)
		case w.Flags&(ci.SendIPChecksum|ci.SendL4Checksum) != 0:
			w.Inline, w.SGL = checksummed(q.x.gather(w.SGL)), nil
			w.Flags &^= ci.SendIPChecksum | ci.SendL4Checksum
			list[0] = w
		}
		if _, err := q.QP.PostSend(list); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// pieces splits a large send into datagrams.
func (q *extendedQP) pieces(w ci.SendWR) []ci.SendWR {
	q.x.mu.Lock()
	q.x.large[w.ID] = true
	q.x.mu.Unlock()
	var out []ci.SendWR
	for piece := range slices.Chunk(q.x.gather(w.SGL), w.Ext.LSO.MSS) {
		p := w
		p.Op, p.Flags = ci.OpSend, w.Flags&^ci.SendSignaled
		p.Ext, p.SGL = nil, nil
		p.Inline = append(slices.Clone(w.Ext.LSO.Header), piece...)
		out = append(out, p)
	}
	out[len(out)-1].Flags = w.Flags
	return out
}

// checksummed sets the checksums of an IPv4 datagram with TCP after a header of 4 bytes.
func checksummed(m []byte) []byte {
	sum := func(parts ...[]byte) uint16 {
		n := uint32(0)
		for _, b := range parts {
			for i, c := range b {
				n += uint32(c) << (8 * uint(1-i%2))
			}
		}
		for n > 0xffff {
			n = n&0xffff + n>>16
		}
		return ^uint16(n)
	}
	ip := m[4:]
	binary.BigEndian.PutUint16(ip[10:], sum(ip[:20]))
	tcp := ip[20:]
	binary.BigEndian.PutUint16(tcp[16:],
		sum(ip[12:20], []byte{0, 6}, binary.BigEndian.AppendUint16(nil, uint16(len(tcp))), tcp))
	return m
}

type extendedCQ struct {
	ciwrap.CQ
	x *extension
}

func (c extendedCQ) Poll(wc []ci.WC) (int, error) {
	n, err := c.CQ.Poll(wc)
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	for i := range wc[:n] {
		if wc[i].Op == ci.WCSend && c.x.large[wc[i].ID] {
			delete(c.x.large, wc[i].ID)
			wc[i].Op = ci.WCLSO
		}
	}
	return n, err
}

// TestClaimsThatHold checks that the cases that prove capabilities pass on a driver that has them, including those of
// two ports.
func TestClaimsThatHold(t *testing.T) {
	d := extended()
	p := validate.Plan{Catalog: cisuite.Catalog(), Driver: d,
		Select:  validate.Selection{Cases: []string{"claims.works.*"}},
		Setting: validate.Setting{Profile: "full", Options: validate.Options{Seed: 1}}, Command: []string{"test"}}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	assert.True(t, r.Verdict.Certified, r.Verdict.Line)
	for i := range r.Results {
		for _, f := range r.Results[i].Failures {
			t.Errorf("%s: %s", r.Results[i].Case, f)
		}
	}
	assert.GreaterOrEqual(t, len(r.Claims), 38)
	for _, c := range r.Claims {
		assert.Equal(t, validate.ClaimTested, c.State, c.Name)
	}
	for _, name := range validate.CapList(offered | ci.CapChangePrimaryPort) {
		assert.True(t, slices.ContainsFunc(r.Claims, func(c validate.Claim) bool { return c.Name == name }), name)
	}
}
