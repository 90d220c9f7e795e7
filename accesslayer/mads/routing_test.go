package mads_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
)

// Unsolicited datagrams are delivered by class, version and method, and responses by transaction ID, in every class.
func TestRouting(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		var got []string
		note := func(name string) func(*mads.Received) { return func(*mads.Received) { got = append(got, name) } }
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get, mad.Trap},
			OnReceive: note("vendor 1 get, trap")})
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Set},
			OnReceive: note("vendor 1 set")})
		b.agent(mads.AgentConfig{Class: vendor, Version: 2, Methods: []mad.Method{mad.Get},
			OnReceive: note("vendor 2 get")})
		b.agent(mads.AgentConfig{Class: long, Version: 1, OUI: oui, Methods: []mad.Method{mad.Get},
			OnReceive: note("OUI")})
		b.agent(mads.AgentConfig{Class: long, Version: 1, OUI: [3]byte{1, 2, 3}, Methods: []mad.Method{mad.Get},
			OnReceive: note("another OUI")})
		b.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true,
			Methods: []mad.Method{mad.Trap}, OnReceive: note("trap of SM")})
		gs, sm := a.agent(mads.AgentConfig{}), a.agent(mads.AgentConfig{SubnetManagement: true})
		vendor2 := func(o [3]byte) []byte {
			m := request(long, 1, mad.Get, 1)
			copy(m[37:], o[:])
			return m
		}
		for _, c := range []struct {
			agent mads.Agent
			to    mads.Address
			mad   []byte
			want  string
			drop  mads.Drop
		}{
			{gs, b.address(), request(vendor, 1, mad.Get, 1), "vendor 1 get, trap", 0},
			{gs, b.address(), request(vendor, 1, mad.Trap, 1), "vendor 1 get, trap", 0},
			{gs, b.address(), request(vendor, 1, mad.Set, 1), "vendor 1 set", 0},
			{gs, b.address(), request(vendor, 2, mad.Get, 1), "vendor 2 get", 0},
			{gs, b.address(), vendor2(oui), "OUI", 0},
			{gs, b.address(), vendor2([3]byte{1, 2, 3}), "another OUI", 0},
			{sm, b.qp0(), request(mad.ClassSubnetLID, 1, mad.Trap, 1), "trap of SM", 0},
			{gs, b.address(), request(vendor, 2, mad.Trap, 1), "", mads.DropUnclaimed},
			{gs, b.address(), request(vendor, 1, mad.Report, 1), "", mads.DropUnclaimed},
			{gs, b.address(), request(vendor, 1, mad.GetResp, 1), "", mads.DropUnmatched},
			{gs, b.address(), request(vendor, 1, mad.TrapRepress, 1), "", mads.DropUnmatched},
		} {
			got = nil
			before := b.counters().Dropped[c.drop]
			require.NoError(t, c.agent.Send(&mads.Message{To: c.to, MAD: c.mad}))
			synctest.Wait()
			if c.want != "" {
				assert.Equal(t, []string{c.want}, got)
			} else {
				assert.Empty(t, got)
				assert.Equal(t, before+1, b.counters().Dropped[c.drop], c.drop.String())
			}
		}
	})
}

// Two agents of one class receive their own responses, by their transaction IDs.
func TestSolicited(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		held := make(chan *mads.Received, 10)
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get, mad.Trap},
			OnReceive: func(r *mads.Received) { held <- r }})
		server := b.agent(mads.AgentConfig{})
		type end struct {
			r   *mads.Received
			err error
		}
		do := func(agent mads.Agent, m mad.Method, mark byte) chan end {
			c := make(chan end, 1)
			go func() {
				b1 := request(vendor, 1, m, 7) // all with the same transaction ID
				b1[100] = mark
				r, err := agent.Do(t.Context(), &mads.Message{To: b.address(), MAD: b1, Timeout: time.Minute})
				c <- end{r, err}
			}()
			return c
		}
		one, two := a.agent(mads.AgentConfig{Name: "one"}), a.agent(mads.AgentConfig{Name: "two"})
		ends := []chan end{do(one, mad.Get, 1), do(one, mad.Get, 2), do(two, mad.Get, 3), do(two, mad.Trap, 4)}
		var requests [5]*mads.Received
		tids := map[uint64]bool{}
		for range ends {
			r := <-held
			requests[r.MAD[100]] = r
			tids[r.Header().TID] = true
		}
		require.Len(t, tids, 4)
		assert.Equal(t, requests[1].Header().TID>>32, requests[2].Header().TID>>32)
		assert.Equal(t, requests[3].Header().TID>>32, requests[4].Header().TID>>32)
		assert.NotEqual(t, requests[1].Header().TID>>32, requests[3].Header().TID>>32)

		answer := func(r *mads.Received, change func(*mad.Header)) {
			h := r.Header()
			h.Method |= mad.ResponseMask
			if h.Method == mad.Trap|mad.ResponseMask {
				h.Method = mad.TrapRepress
			}
			change(&h)
			m := append([]byte(nil), r.MAD...)
			h.Put(m)
			require.NoError(t, server.Send(&mads.Message{To: r.From, MAD: m}))
			synctest.Wait()
		}
		// Datagrams for neither agent: another class, another number, another agent.
		answer(requests[1], func(h *mad.Header) { h.Class = mad.ClassBoot })
		answer(requests[1], func(h *mad.Header) { h.TID += 1000 })
		answer(requests[1], func(h *mad.Header) { h.TID += 1000 << 32 })
		require.Equal(t, uint64(3), a.counters().Dropped[mads.DropUnmatched])
		for mark := 4; mark >= 1; mark-- {
			require.Empty(t, ends[mark-1])
			answer(requests[mark], func(h *mad.Header) { h.Status = 0x1c })
			e := <-ends[mark-1]
			require.NoError(t, e.err)
			assert.Equal(t, byte(mark), e.r.MAD[100])
			assert.Equal(t, uint64(7), e.r.Header().TID, "the caller's")
			assert.Equal(t, uint16(0x1c), e.r.Header().Status, "a response with an error status is a response")
			assert.Equal(t, b.attr().LID, e.r.From.AV.DLID)
		}
		// The second response is dropped.
		answer(requests[1], func(*mad.Header) {})
		assert.Equal(t, uint64(4), a.counters().Dropped[mads.DropUnmatched])
	})
}

// A response counts only if it comes from the destination of the request, unless the route was directed or to a group.
func TestAnswerFromAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := direct.NewLink()
		var n [3]*node
		for i := range n {
			n[i] = newNode(t, nodeConfig{}, testenv.Must(direct.New(l, direct.Config{})))
		}
		imposter := n[2].agent(mads.AgentConfig{})
		var honest mads.Agent
		honest = n[1].agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
			OnReceive: func(r *mads.Received) {
				r.MAD[3] = byte(mad.GetResp)
				r.MAD[100] = 1
				assert.NoError(t, imposter.Send(&mads.Message{To: n[0].address(), MAD: r.MAD}))
				time.AfterFunc(time.Millisecond, func() {
					r.MAD[100] = 2
					assert.NoError(t, honest.Send(&mads.Message{To: r.From, MAD: r.MAD}))
				})
			}})
		r, err := n[0].agent(mads.AgentConfig{}).Do(t.Context(), &mads.Message{To: n[1].address(),
			MAD: request(vendor, 1, mad.Get, 1)})
		require.NoError(t, err)
		assert.Equal(t, byte(2), r.MAD[100])
		assert.Equal(t, uint64(1), n[0].counters().Dropped[mads.DropUnmatched])
	})
}

// Get and Set without an agent are answered as unsupported, and those of a class with an agent of another version as
// such.
func TestUnclaimed(t *testing.T) {
	pair(t, func(t *testing.T, a, b *node) {
		b.agent(mads.AgentConfig{Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.Send}})
		client := a.agent(mads.AgentConfig{})
		for _, c := range []struct {
			class   mad.Class
			version uint8
			m       mad.Method
			status  uint16
		}{
			{vendor, 1, mad.Get, mad.StatusBadMethodAttribute},
			{vendor, 1, mad.Set, mad.StatusBadMethodAttribute},
			{mad.ClassCM, 2, mad.Get, mad.StatusBadMethodAttribute},
			{mad.ClassCM, 1, mad.Get, mad.StatusBadVersion},
		} {
			m := request(c.class, c.version, c.m, 5)
			m[99] = 1
			r, err := client.Do(soon(t), &mads.Message{To: b.address(), MAD: m, Timeout: 10 * time.Second})
			require.NoError(t, err)
			h := r.Header()
			assert.Equal(t, c.status, h.Status)
			assert.Equal(t, mad.GetResp, h.Method)
			assert.Equal(t, byte(1), r.MAD[99])
		}
	})
}

// SMPs and performance datagrams without an agent are executed by the HCA, on InfiniBand. An agent may register for
// them.
func TestLocalAgent(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		sm := a.agent(mads.AgentConfig{SubnetManagement: true})
		get := func(class mad.Class, attribute uint16) []byte {
			m := request(class, 1, mad.Get, 9)
			m[17] = byte(attribute)
			m[32], m[33] = 0xff, 0xff
			m[34], m[35] = 0xff, 0xff // permissive LIDs: the whole route is directed
			return m
		}
		do := func(to mads.Address, m []byte) *mads.Received {
			r, err := sm.Do(t.Context(), &mads.Message{To: to, MAD: m})
			require.NoError(t, err)
			return r
		}
		info := func(r *mads.Received) (ni mad.NodeInfo) {
			require.Zero(t, r.Header().Status&^mad.StatusDirection)
			require.Equal(t, mad.GetResp, r.Header().Method)
			ni.Parse(r.MAD[64:])
			return ni
		}
		ga, gb := uint64(a.hca.Info().GUID), uint64(b.hca.Info().GUID)
		assert.Equal(t, gb, info(do(b.qp0(), get(mad.ClassSubnetLID, mad.AttrNodeInfo))).NodeGUID)
		assert.Equal(t, ga, info(do(a.qp0(), get(mad.ClassSubnetLID, mad.AttrNodeInfo))).NodeGUID, "by its own LID")

		directed := get(mad.ClassSubnetDirected, mad.AttrNodeInfo)
		r := do(mads.Address{AV: ci.AVAttr{DLID: 0xffff}}, directed)
		assert.Equal(t, ga, info(r).NodeGUID, "no hops: this port")
		assert.Equal(t, [2]byte{0, 0}, [2]byte(r.MAD[6:]))
		directed[7], directed[128+1] = 1, 1 // by port 1 to the other end
		r = do(mads.Address{AV: ci.AVAttr{DLID: 0xffff}}, directed)
		assert.Equal(t, gb, info(r).NodeGUID)
		assert.Equal(t, [2]byte{0, 1}, [2]byte(r.MAD[6:]), "hop pointer back at the beginning")
		assert.Equal(t, byte(1), r.MAD[192+1], "return path")

		for name, route := range map[string]func(m []byte){
			"another port":      func(m []byte) { m[128+1] = 2 },
			"not the beginning": func(m []byte) { m[6] = 1 },
			"too many hops":     func(m []byte) { m[7] = 64 },
		} {
			m := append([]byte(nil), directed...)
			route(m)
			_, err := sm.Do(t.Context(), &mads.Message{To: mads.Address{AV: ci.AVAttr{DLID: 0xffff}}, MAD: m})
			assert.ErrorIs(t, err, ci.InvalidParameter, name)
		}
		// A route of two hops ends at no adapter.
		directed[7] = 2
		_, err := sm.Do(t.Context(), &mads.Message{To: mads.Address{AV: ci.AVAttr{DLID: 0xffff}}, MAD: directed})
		assert.ErrorIs(t, err, ci.Timeout)
		assert.Equal(t, uint64(1), b.counters().Dropped[mads.DropHops])

		// The HCA executes performance management, of which it supports version 1.
		for version, want := range map[uint8]uint16{1: mad.StatusBadMethodAttribute, 2: mad.StatusBadVersion} {
			pr, err := a.agent(mads.AgentConfig{}).Do(t.Context(), &mads.Message{To: b.address(),
				MAD: request(mad.ClassPerformance, version, mad.Get, 1)})
			require.NoError(t, err)
			assert.Equal(t, want, pr.Header().Status)
		}

		b.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true,
			Methods: []mad.Method{mad.Get}, Queue: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err = sm.Do(ctx, &mads.Message{To: b.qp0(), MAD: get(mad.ClassSubnetLID, mad.AttrNodeInfo)})
		assert.ErrorIs(t, err, context.DeadlineExceeded, "an agent has claimed it, and does not answer")
	})
}

// Addresses of responses lead back to the requester: with a GRH, by other P_Keys, with path bits. GIDs are those of the
// packet.
func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := direct.NewLink()
		c := direct.Config{LMC: 2, LID: 8, PKeys: []ci.PKey{0xffff, 0x8123}}
		a := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, c)))
		c.LID, c.PKeys = 16, []ci.PKey{0xffff, 0x8777, 0x0123}
		b := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, c)))
		var last *mads.Received
		var server mads.Agent
		server = b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
			OnReceive: func(r *mads.Received) {
				last = r
				m := append([]byte(nil), r.MAD...)
				m[3] = byte(mad.GetResp)
				assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: m}))
			}})
		client := a.agent(mads.AgentConfig{})
		to := b.address()
		to.AV.DLID += 3
		to.AV.PathBits, to.AV.SL, to.PKeyIndex = 2, 5, 1
		r, err := client.Do(t.Context(), &mads.Message{To: to, MAD: request(vendor, 1, mad.Get, 1)})
		require.NoError(t, err)
		want := mads.Address{AV: ci.AVAttr{Port: 1, SL: 5, PathBits: 3, DLID: 10}, QPN: 1,
			QKey: 0x80010000, PKeyIndex: 2}
		assert.Equal(t, want, last.From)
		assert.False(t, last.GRH)
		assert.Equal(t, ci.LID(19), r.From.AV.DLID)

		to.AV.Global, to.AV.GRH = true, ci.GRH{DGID: b.attr().GIDs[0].GID, FlowLabel: 0x12345,
			TrafficClass: 9, HopLimit: 3}
		r, err = client.Do(t.Context(), &mads.Message{To: to, MAD: request(vendor, 1, mad.Get, 1)})
		require.NoError(t, err)
		want.AV.Global, want.AV.GRH = true, ci.GRH{DGID: a.attr().GIDs[0].GID, FlowLabel: 0x12345,
			TrafficClass: 9, HopLimit: 255}
		assert.Equal(t, want, last.From)
		assert.True(t, last.GRH)
		assert.Equal(t, a.attr().GIDs[0].GID, last.SGID)
		assert.Equal(t, b.attr().GIDs[0].GID, last.DGID)
		assert.True(t, r.GRH)
	})
}
