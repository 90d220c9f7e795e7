package cmid_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/internal/cmrig"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// isRTU reports whether a packet is a ready-to-use message (IBTA volume 1, 12.6.9). It is behind an IPv4 header, UDP,
// BTH and DETH.
func isRTU(d *sim.Datagram) bool {
	const bth, madAt = 20 + 8, 20 + 8 + 12 + 8
	if len(d.Data) < madAt+24 || d.Data[bth] != 0x64 { // UD SEND only
		return false
	}
	m := d.Data[madAt:]
	return m[1] == uint8(mad.ClassCM) && binary.BigEndian.Uint16(m[16:]) == mad.AttrRTU
}

// badWrite is a request that every peer rejects.
func badWrite(out *cmrig.Buffer) []ci.SendWR {
	return []ci.SendWR{{ID: 7, Op: ci.OpWrite, SGL: []ci.SGE{out.R.SGE(0, 8)},
		Remote: ci.Remote{Addr: 4096, RKey: 0xdead00}}}
}

// TestBadRequestBeforeRTU tests a peer that sends an invalid request after the REP, which arrives before its RTU.
// Accept returns ErrQPFailed, not the error of the step that failed.
func TestBadRequestBeforeRTU(t *testing.T) {
	l := &lan{Open: open, Network: sim.NewNetwork(sim.NetworkConfig{Filter: func(d *sim.Datagram) impair.Verdict {
		if isRTU(d) {
			return impair.Drop
		}
		return impair.Pass
	}})}
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	peer := serve(t, ln, nil, cmid.ConnParam{})
	id, err := c.M.Dial(ctx, ap("10.66.0.1:7174"), cmid.DialConfig{})
	require.NoError(t, err)
	testenv.Must(id.QP().PostSend(badWrite(cmrig.NewBuffer(t, id, 8))))
	wc := make([]ci.WC, 1)
	testenv.Must(id.SendCQ().Wait(ctx, wc))
	require.Equal(t, ci.WCRemAccessErr, wc[0].Status)

	p := <-peer
	require.ErrorIs(t, p.err, cmid.ErrQPFailed)
	require.ErrorIs(t, p.err, p.id.Err(), "the same")
	require.NotErrorIs(t, p.err, ci.InvalidQPState, "the error is not that of a step")
	require.NotContains(t, p.err.Error(), "Modify")
	cmrig.Await(t, p.id.Done(), "the end at this end")
	cmrig.Await(t, id.Done(), "the end at the peer's, which is told")
	require.ErrorIs(t, id.Err(), cmid.ErrPeerDisconnected)
	for _, i := range []*cmid.ID{p.id, id} {
		require.NoError(t, i.Close())
	}
	require.ErrorIs(t, p.id.Err(), cmid.ErrQPFailed, "the first reason is kept")
}

// TestOneCQ tests that with one CQ, the completion with the reason of a QP's failure precedes all flushed ones of both
// queues.
func TestOneCQ(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	peer := serve(t, ln, nil, cmid.ConnParam{})
	cfg := cmid.QPConfig{OneCQ: true, Caps: ci.QPCaps{SendDepth: 20, RecvDepth: 30}}
	id, err := c.M.Dial(ctx, ap("10.66.0.1:7174"), cmid.DialConfig{QP: cfg})
	require.NoError(t, err)
	require.NoError(t, (<-peer).err)
	require.Same(t, id.SendCQ(), id.RecvCQ())
	require.GreaterOrEqual(t, testenv.Must(id.SendCQ().Query()).Size, 50, "the CQ holds the completions of both queues")

	b := cmrig.NewBuffer(t, id, 64)
	for n := range 30 {
		testenv.Must(id.QP().PostRecv([]ci.RecvWR{{ID: uint64(100 + n), SGL: []ci.SGE{b.R.SGE(0, 64)}}}))
	}
	for range 20 {
		if _, err := id.QP().PostSend(badWrite(b)); err != nil {
			require.ErrorIs(t, err, ci.InvalidQPState, "the QP has failed before")
			break
		}
	}
	wc, seen := make([]ci.WC, 64), []ci.WC(nil)
	for len(seen) < 31 {
		seen = append(seen, wc[:testenv.Must(id.RecvCQ().Wait(ctx, wc))]...)
	}
	require.Equal(t, ci.WCRemAccessErr, seen[0].Status)
	require.EqualValues(t, 7, seen[0].ID)
	recvs := 0
	for _, w := range seen[1:] {
		require.Equal(t, ci.WCFlushErr, w.Status)
		if w.ID >= 100 {
			recvs++
		}
	}
	require.Equal(t, 30, recvs)
	require.NoError(t, id.Close())
}

// TestOneCQRefused tests that invalid combinations are rejected, and leave nothing.
func TestOneCQRefused(t *testing.T) {
	c := newLAN().Host(t, "10.66.0.2")
	id, err := c.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.NoError(t, id.Bind(ap("10.66.0.2:0")))
	pd := testenv.Must(id.PD())
	cq := testenv.Must(pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{}))
	srq := testenv.Must(pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}}, nil))
	for name, q := range map[string]cmid.QPConfig{"a SendCQ": {SendCQ: cq}, "a RecvCQ": {RecvCQ: cq},
		"an SRQ": {SRQ: srq}} {
		q.OneCQ = true
		assert.ErrorIs(t, id.CreateQP(q), ci.InvalidParameter, name)
	}
	attr := testenv.Must(c.AL.Adapter(c.HCAs["10.66.0.2"].Info().GUID)).Attr()
	deep := ci.QPCaps{SendDepth: attr.MaxCQEs, RecvDepth: 1}
	err = id.CreateQP(cmid.QPConfig{OneCQ: true, Caps: deep})
	require.ErrorIs(t, err, ci.InvalidCQSize, "the sum exceeds the limit")
	require.True(t, accesslayer.TooDeep(err))
	bad := ci.QPCaps{SendSGE: 1 << 20}
	require.ErrorIs(t, id.CreateQP(cmid.QPConfig{OneCQ: true, Caps: bad}), ci.InvalidMaxSGE,
		"the CQ that was created is destroyed")
	require.NoError(t, id.CreateQP(cmid.QPConfig{OneCQ: true}))
	require.NoError(t, id.Close())
}

// TestTooDeep tests that an adapter's error for a queue pair that is too deep passes all layers, and can be told from
// other errors.
func TestTooDeep(t *testing.T) {
	al := accesslayer.New(accesslayer.Config{})
	hca := testenv.Must(reference.New(reference.Config{
		Ports:    []rvt.Port{testenv.Must(sim.New(newLAN().Network, sim.Config{Addr: ap("10.66.0.1:0").Addr()}))},
		Override: ciwrap.Layer{PD: func(in ci.PD, _ ci.PDType) ci.PD { return &shallowPD{ciwrap.PD{PD: in}} }},
	}))
	t.Cleanup(func() { assert.NoError(t, errors.Join(al.Close(), hca.Close())) })
	require.NoError(t, al.Register(hca))
	m := testenv.Must(open(al))
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	id := testenv.Must(m.NewID(cmid.IDConfig{}))
	require.NoError(t, id.Bind(ap("10.66.0.1:0")))
	depth, tries := 100, 0
	err := error(nil)
	for ; depth > 0; depth /= 2 {
		tries++
		if err = id.CreateQP(cmid.QPConfig{OneCQ: true,
			Caps: ci.QPCaps{SendDepth: depth, RecvDepth: depth}}); !accesslayer.TooDeep(err) {
			break
		}
	}
	require.NoError(t, err)
	require.Equal(t, 25, depth)
	require.Equal(t, 3, tries)
	require.NoError(t, id.Close())
}

// shallowPD creates no connected queue pair with more than 40 send requests.
type shallowPD struct{ ciwrap.PD }

func (p *shallowPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if c.Type == ci.RC && c.SendDepth > 40 {
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientMemory}
	}
	return p.PD.CreateQP(c)
}
