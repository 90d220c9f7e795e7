package cm_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// TestLAP compares every cell of the table for alternate paths with the manager's behavior.
func TestLAP(t *testing.T) {
	lap := func(v *situation, tid uint64) {
		v.s.sendTID(tid, v.message("LAP"))
	}
	propose := func(v *situation) (tid uint64) {
		v.background(func(ctx context.Context) {
			_, _ = v.c.LoadAlternate(ctx, cm.AlternateConfig{Path: v.s.x.path(2, v.s.p.x, 2)})
		})
		tid = header(v.s.p.got[0].MAD).TID
		one[*mad.LAP](v.s)
		return tid
	}
	enter := map[string]struct {
		enter func(v *situation) (tid uint64) // the transaction ID of the LAP
		from  func(*scripted) *situation
	}{
		"idle": {func(v *situation) uint64 {
			lap(v, 1)
			require.NoError(t, v.c.AnswerAlternate(mad.APRLoaded, nil, []byte("loaded")))
			v.s.settle()
			v.noteLastSent()
			return 1
		}, enterPassive},
		"LAPSent": {propose, enterActive},
		"MRARcvd": {func(v *situation) uint64 {
			tid := propose(v)
			v.s.send(v.message("MRA of LAP"))
			return tid
		}, enterActive},
		"LAPRcvd": {func(v *situation) uint64 { lap(v, 1); return 1 }, enterPassive},
		"MRASent": {func(v *situation) uint64 {
			lap(v, 1)
			require.NoError(t, v.c.Delay(20, []byte("wait")))
			v.s.settle()
			v.noteLastSent()
			return 1
		}, enterPassive},
	}
	for i := range cm.LapStates {
		name, actions := cm.LapReaction(i)
		t.Run(name, func(t *testing.T) {
			inScriptOn(t, ci.LinkInfiniBand, cm.Config{}, func(t *testing.T, s *scripted) {
				for k, row := range []string{"LAP", "LAP again", "APR", "MRA of LAP"} {
					s.p.id++
					v := enter[name].from(s)
					tid := enter[name].enter(v)
					require.Equal(t, name, cm.LapState(v.c))
					active := v.c.Request().LocalCommID == v.ids.ours
					switch row {
					case "LAP":
						m := v.message("LAP").(*mad.LAP)
						if name == "idle" {
							m.Alternate = s.wire(1) // the path of port 2 is already loaded
						}
						s.sendTID(tid+1, m)
					case "LAP again":
						lap(v, tid)
					default:
						s.sendTID(tid, v.message(row))
					}
					switch action := actions[k]; {
					case active && (row == "LAP" || row == "LAP again"):
						assert.Equal(t, mad.APRUnsupported, one[*mad.APR](s).Status, "only the active end can propose")
						assert.Equal(t, name, cm.LapState(v.c))
					case action == "-":
						assert.Empty(t, s.take(), "%s: %s", name, row)
						assert.Equal(t, name, cm.LapState(v.c), "%s: %s", name, row)
					case action == "repeat":
						require.Len(t, s.p.got, 1)
						assert.Equal(t, v.last, s.p.got[0].MAD)
						assert.Equal(t, name, cm.LapState(v.c))
					case action == "LAPRcvd" &&
						name == "idle": // the connection's own path; rejected without the consumer
						assert.Equal(t, mad.APRDuplicatePath, one[*mad.APR](s).Status)
					default:
						assert.Empty(t, s.take())
						assert.Equal(t, action, cm.LapState(v.c), "%s: %s", name, row)
					}
					v.end()
				}
			})
		})
	}
}

// The manager rejects unusable alternate paths, with an acceptable value.
func TestLAPRefused(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterPassive(s)
		ib := s.x.attr(1).Link == ci.LinkInfiniBand
		gid := s.x.attr(1).GIDs[0].GID
		for i, tt := range []struct {
			edit   func(*mad.LAP)
			status mad.APRStatus
			info   []byte
			only   bool // InfiniBand only
		}{
			{func(l *mad.LAP) { l.RemoteQPN++ }, mad.APRInvalidQPN, nil, false},
			{func(l *mad.LAP) { l.Alternate.RemoteGID = [16]byte{1} }, mad.APRInvalidGID, gid[:], false},
			{func(l *mad.LAP) { l.Alternate = s.wire(1) }, mad.APRDuplicatePath, nil, false},
			{func(l *mad.LAP) { l.Alternate.RemoteLID = 0x77 }, mad.APRInvalidLID,
				[]byte{0, byte(s.x.attr(2).LID)}, true},
			{func(l *mad.LAP) { l.Alternate.LocalLID = 0xc001 }, mad.APRInvalidLID,
				[]byte{0, byte(s.x.attr(2).LID)}, true},
		} {
			if tt.only && !ib {
				continue
			}
			l := v.message("LAP").(*mad.LAP)
			tt.edit(l)
			s.sendTID(uint64(100+i), l)
			a := one[*mad.APR](s)
			assert.Equal(t, tt.status, a.Status)
			assert.Equal(t, tt.info, append([]byte(nil), a.AdditionalInfo()...), tt.status)
			assert.Equal(t, v.ids.theirs, a.RemoteCommID)
		}
		v.end()
	})
}

// A connection has an alternate path from its REQ, then one loaded by a LAP, and then migrates. The test checks the QP
// attributes and the destination of messages.
func TestAlternate(t *testing.T) {
	for _, typ := range []ci.Link{ci.LinkInfiniBand, ci.LinkEthernet} {
		inPairOn(t, typ, 3, cm.Config{}, func(t *testing.T, p *pair) {
			alt := p.a.path(2, p.b, 2)
			a, b := p.establish(func(c *cm.ConnectConfig) { c.Alternate = &alt })
			next(t, b, cm.EventEstablished)
			assert.True(t, b.Request().HasAlternate())
			require.NotNil(t, b.Request().Alternate)
			assert.Equal(t, p.b.port(2), b.Request().Alternate.Port)
			for c, port := range map[cm.Conn]uint8{a: 2, b: 2} {
				set, attr, err := c.QPAttr(ci.QPRTS)
				require.NoError(t, err)
				assert.Equal(t, ci.QPFieldsRTS|ci.QPFieldAlternate|ci.QPFieldAPM, set)
				assert.Equal(t, port, attr.Alternate.AV.Port)
				assert.Equal(t, ci.APMRearm, attr.APM)
				assert.NotZero(t, attr.Alternate.AckTimeout)
			}

			// A second path.
			answered := make(chan error)
			go func() {
				e := next(t, b, cm.EventAlternate)
				assert.Equal(t, p.b.port(3), e.Path.Port)
				assert.Equal(t, private([]byte("lap"), mad.LAPPrivateLen), e.Private)
				assert.NoError(t, b.Delay(20, []byte("a moment")))
				pass(time.Second)
				answered <- b.AnswerAlternate(mad.APRLoaded, nil, []byte("apr"))
			}()
			apr, err := a.LoadAlternate(t.Context(), cm.AlternateConfig{Path: p.a.path(3, p.b, 3),
				Private: []byte("lap")})
			require.NoError(t, err)
			require.NoError(t, <-answered)
			assert.Equal(t, private([]byte("apr"), mad.APRPrivateLen), apr.PrivateData[:])
			assert.Equal(t, private([]byte("a moment"), mad.MRAPrivateLen), next(t, a, cm.EventDelayed).Private)
			for _, c := range []cm.Conn{a, b} {
				set, attr, err := c.AlternateAttr()
				require.NoError(t, err)
				assert.Equal(t, ci.QPFieldAlternate|ci.QPFieldAPM, set)
				assert.Equal(t, uint8(3), attr.Alternate.AV.Port)
				require.NoError(t, c.Migrated())
				assert.Equal(t, uint8(3), c.Request().Primary.Port.Num)
				assert.ErrorIs(t, c.Migrated(), ci.InvalidState)
				_, _, err = c.AlternateAttr()
				assert.ErrorIs(t, err, ci.InvalidState)
			}
			p.net.filter = func(d *datagram) bool {
				return assert.Equal(t, uint8(3), d.from.Num, "messages take the path of the connection") &&
					assert.Equal(t, uint8(3), d.to.Num)
			}

			// A path that the peer rejects.
			go func() {
				next(t, b, cm.EventAlternate)
				answered <- b.AnswerAlternate(mad.APRRejected, []byte("info"), nil)
			}()
			_, err = a.LoadAlternate(t.Context(), cm.AlternateConfig{Path: p.a.path(1, p.b, 1)})
			var e *cm.AlternateError
			require.ErrorAs(t, err, &e)
			require.NoError(t, <-answered)
			assert.Equal(t, mad.APRRejected, e.APR.Status)
			assert.Equal(t, "info", string(e.APR.AdditionalInfo()))
			assert.ErrorContains(t, err, "path rejected")

			// A LAP without an answer. The connection is kept.
			p.net.filter = func(d *datagram) bool { return false }
			start := time.Now()
			_, err = a.LoadAlternate(t.Context(), cm.AlternateConfig{Path: p.a.path(2, p.b, 2)})
			require.ErrorIs(t, err, cm.ErrTimeout)
			assert.Equal(t, 6*(mad.TimeExp(18).Duration()+2*mad.TimeExp(14).Duration()), time.Since(start),
				"the LAP and 5 copies")
			assert.Equal(t, cm.StateEstablished, a.State())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = a.LoadAlternate(ctx, cm.AlternateConfig{Path: p.a.path(2, p.b, 2)})
			cancel()
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

// The REP's failover status follows the passive consumer and the capabilities of its CA.
func TestFailover(t *testing.T) {
	inPairOn(t, ci.LinkInfiniBand, 2, cm.Config{}, func(t *testing.T, p *pair) {
		alt := p.a.path(2, p.b, 2)
		l := p.b.listen()
		answer := reply()
		answer.Failover = mad.FailoverRejected
		a, b := p.connect(l, p.a.requestTo(p.b, func(c *cm.ConnectConfig) { c.Alternate = &alt }), answer)
		assert.Equal(t, mad.FailoverRejected, a.Reply().Failover)
		for _, c := range []cm.Conn{a, b} {
			set, _, err := c.QPAttr(ci.QPRTS)
			require.NoError(t, err)
			assert.Equal(t, ci.QPFieldsRTS, set, "no path to load")
			require.NoError(t, c.Close())
		}
		require.NoError(t, l.Close())
	})
}
