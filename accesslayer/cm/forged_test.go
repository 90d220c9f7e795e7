package cm_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// These tests send forged messages from another port. They use what is not secret: the CA GUID of a connection's peer,
// its QPN, and one of its IDs.

// A REQ with the QP or communication ID of a connection's peer ends the connection only if it comes from the peer's
// port.
func TestForgedREQ(t *testing.T) {
	for name, enter := range map[string]func(*scripted) *situation{"active": enterActive, "passive": enterPassive} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(t *testing.T, s *scripted) {
				v := enter(s)
				guid, qpn := uint64(s.p.x.hca.Info().GUID), s.p.id&0xffff
				for _, edit := range []func(*mad.REQ){
					func(r *mad.REQ) { r.LocalCommID++ },
					func(r *mad.REQ) { r.LocalQPN++ },
				} {
					r := s.request(edit, func(r *mad.REQ) { r.Primary.LocalGID = s.p.x.attr(2).GIDs[0].GID })
					if s.x.attr(1).Link == ci.LinkInfiniBand {
						r.Primary.LocalLID = uint16(s.p.x.attr(2).LID)
					}
					l := s.x.listen()
					s.sendFromOtherPort(r)
					require.NoError(t, l.Close())
					assert.Equal(t, mad.RejStaleConnection, one[*mad.REJ](s).Reason)
					assert.Equal(t, cm.StateEstablished, v.c.State())
				}
				s.send(s.request(func(r *mad.REQ) { r.LocalCommID, r.LocalCAGUID, r.LocalQPN = 1, guid, qpn }))
				assert.Equal(t, cm.StateDREQSent, v.c.State(), "the peer has lost the connection")
				v.end()
			})
		})
	}
}

// The answer to a request is taken only from the port to which the request was sent, though one from elsewhere has the
// ID of the request.
func TestForgedAnswer(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := s.enterREQSent()
		forged := s.reply(s.p.req)
		for _, m := range []mad.CMMessage{forged,
			&mad.MRA{LocalCommID: forged.LocalCommID, RemoteCommID: forged.RemoteCommID, Message: mad.WhichREQ},
			&mad.REJ{LocalCommID: forged.LocalCommID, RemoteCommID: forged.RemoteCommID, Message: mad.WhichREQ}} {
			s.sendFromOtherPort(m)
			assert.Equal(t, cm.StateREQSent, v.c.State(), "%T", m)
		}
		v.end()

		found := make(chan ci.QPN, 1)
		go func() {
			r, err := s.x.m.Lookup(t.Context(), cm.LookupConfig{Service: service1, Path: s.x.path(1, s.p.x, 1)})
			assert.NoError(t, err)
			found <- r.QPN
		}()
		s.settle()
		id := one[*mad.SIDRREQ](s).RequestID
		s.sendFromOtherPort(&mad.SIDRREP{RequestID: id, QPN: 13})
		s.send(&mad.SIDRREP{RequestID: id, QPN: 14})
		assert.Equal(t, ci.QPN(14), <-found)
	})
}

// A REP with another peer's QP establishes no connection, and does not end the connection of that QP.
func TestForgedREP(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterPassive(s)
		failed := make(chan error, 1)
		go func() {
			_, err := s.x.m.Connect(t.Context(),
				s.x.requestTo(s.p.x, func(c *cm.ConnectConfig) { c.Primary = s.x.path(1, s.p.x, 2) }))
			failed <- err
		}()
		s.settle()
		rep := s.reply(one[*mad.REQ](s))
		rep.LocalCommID++
		s.sendFromOtherPort(rep)
		require.ErrorIs(t, <-failed, ci.RemoteError)
		assert.Equal(t, cm.StateEstablished, v.c.State())
		assert.Equal(t, mad.RejStaleConnection, one[*mad.REJ](s).Reason)
		v.end()
	})
}

// A REJ that identifies its connection by the peer's GUID and ID comes from a peer without our ID. It is accepted from
// the peer's port only, and only before the connection is established.
func TestForgedTimeoutREJ(t *testing.T) {
	for _, tt := range []struct {
		name           string
		enter          func(*scripted) *situation
		before, behind cm.State
	}{
		{"REQRcvd", (*scripted).enterREQRcvd, cm.StateREQRcvd, cm.StateTimeWait},
		{"REPSent", enterREPSent, cm.StateREPSent, cm.StateTimeWait},
		{"Established, passive", enterPassive, cm.StateEstablished, cm.StateEstablished},
		{"Established, active", enterActive, cm.StateEstablished, cm.StateEstablished},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inScript(t, func(t *testing.T, s *scripted) {
				v := tt.enter(s)
				j := &mad.REJ{LocalCommID: s.p.id, Message: mad.WhichREQ, Reason: mad.RejTimeout}
				require.NoError(t,
					j.SetAdditionalInfo(binary.BigEndian.AppendUint64(nil, uint64(s.p.x.hca.Info().GUID))))
				s.sendFromOtherPort(j)
				assert.Equal(t, tt.before, v.c.State(), "from elsewhere")
				assert.Equal(t, uint64(1), s.x.m.Counters().Dropped[cm.DropUnknown])
				s.send(j)
				assert.Equal(t, tt.behind, v.c.State(), "from the peer")
				v.end()
			})
		})
	}
}

// The IDs of connections cannot be guessed from other IDs: they are random and depend on the seed.
func TestIDsSpread(t *testing.T) {
	inPairOn(t, ci.LinkInfiniBand, 1, cm.Config{Rand: rand.New(rand.NewPCG(1, 2))}, func(t *testing.T, p *pair) {
		const n = 64
		var near int
		last := uint32(0)
		for i := range n {
			a, b := p.establish(func(c *cm.ConnectConfig) { c.QP.Num = ci.QPN(0x100 + i) })
			if d := a.ID() - last; d+1024 < 2048 {
				near++
			}
			last = a.ID()
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
			pass(1 << 36) // time-wait ends; the passive end uses the same QP each time
		}
		assert.Less(t, near, 2)
	})
}
