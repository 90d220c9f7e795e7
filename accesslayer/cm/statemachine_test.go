package cm_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// message returns the message for a row of the table.
func (s *situation) message(row string) mad.CMMessage {
	theirs, ours := s.ids.theirs, s.ids.ours
	switch row {
	case "REQ":
		return s.s.p.req
	case "other REQ":
		r := s.s.request(func(r *mad.REQ) { r.StartingPSN = 0xbad })
		return r
	case "REP":
		return &mad.REP{LocalCommID: theirs, RemoteCommID: ours, LocalQPN: s.s.p.id & 0xffff,
			LocalCAGUID: uint64(s.s.p.x.hca.Info().GUID)}
	case "RTU":
		return &mad.RTU{LocalCommID: theirs, RemoteCommID: ours}
	case "REJ":
		return &mad.REJ{LocalCommID: theirs, RemoteCommID: ours, Message: mad.WhichOther, Reason: mad.RejConsumer}
	case "MRA of REQ":
		return &mad.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: mad.WhichREQ, ServiceTimeout: 19}
	case "MRA of REP":
		return &mad.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: mad.WhichREP, ServiceTimeout: 19}
	case "MRA of LAP":
		return &mad.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: mad.WhichLAP, ServiceTimeout: 19}
	case "DREQ":
		return s.dreq()
	case "DREP":
		return &mad.DREP{LocalCommID: theirs, RemoteCommID: ours}
	case "LAP":
		return &mad.LAP{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: ourQPN, Alternate: s.s.wire(2)}
	case "APR":
		return &mad.APR{LocalCommID: theirs, RemoteCommID: ours}
	}
	panic(row)
}

// TestReactions compares every cell of the table with the manager's behavior: the state after the message, and the
// answer on the wire.
func TestReactions(t *testing.T) {
	seen := map[cm.State]bool{}
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		sit := situations[name]
		seen[sit.state] = true
		t.Run(name, func(t *testing.T) {
			inScriptOn(t, ci.LinkInfiniBand, cm.Config{}, func(t *testing.T, s *scripted) {
				for k := range int(cm.Messages) {
					row, action := cm.Reaction(sit.state, k)
					s.p.id++ // a connection of its own
					v := sit.enter(s)
					require.Equal(t, sit.state, v.c.State(), "%s: %s", name, row)
					active := v.c.Request().LocalCommID == v.ids.ours
					if row == "REQ" && active || row == "other REQ" && (sit.state == cm.StateREQSent ||
						sit.state == cm.StateREPWait) {
						v.end() // the REQ was ours, or the peer's ID and QP are not known before its REP
						continue
					}
					v.check(row, action, sit.state)
					v.end()
					assert.Equal(t, cm.StateTimeWait.String(), endState(v.c), "%s: %s", name, row)
				}
			})
		})
	}
	for s := range cm.States {
		assert.Equal(t, s != cm.StateIdle && s != cm.StateClosed, seen[s], "%v has no situation", s)
	}
}

// endState returns TimeWait for all states in which a connection ends by itself, and otherwise the state.
func endState(c cm.Conn) string {
	switch s := c.State(); s {
	case cm.StateClosed, cm.StateDREQSent:
		return cm.StateTimeWait.String()
	default:
		return s.String()
	}
}

func (s *situation) check(row, action string, from cm.State) {
	t, script := s.s.t, s.s
	late := script.x.m.Counters().Dropped[cm.DropLate]
	tid := script.p.tid
	if row == "DREQ" && s.dtid != 0 {
		tid = s.dtid
	}
	script.sendTID(tid, s.message(row))
	where := func(want cm.State) {
		t.Helper()
		require.Equal(t, want, s.c.State(), "%s, %s: %s", from, row, action)
	}
	silent := func() {
		t.Helper()
		require.Empty(t, script.take(), "%s, %s: %s", from, row, action)
	}
	same := func() {
		t.Helper()
		require.Len(t, script.p.got, 1, "%s, %s: %s", from, row, action)
		require.Equal(t, s.last, script.p.got[0].MAD, "%s, %s: %s", from, row, action)
	}
	stale := func() {
		t.Helper()
		found := false
		for _, m := range script.take() { // in any order
			j, ok := m.(*mad.REJ)
			found = found || ok && *j == mad.REJ{RemoteCommID: s.ids.theirs, Reason: mad.RejStaleConnection}
		}
		require.True(t, found, "%s, %s: %s", from, row, action)
	}
	dropped := func() {
		t.Helper()
		require.Equal(t, late+1, script.x.m.Counters().Dropped[cm.DropLate], "%s, %s: not counted", from, row)
	}
	switch action {
	case "-":
		where(from)
		silent()
		dropped()
	case "repeat":
		where(from)
		if s.last == nil { // there is no last message: the passive end has the RTU
			silent()
			dropped()
			return
		}
		same()
	case "repeat REJ":
		where(from)
		if s.last != nil && s.last[17] == byte(mad.AttrREJ) {
			same()
			return
		}
		silent()
		dropped()
	case "REJ stale":
		where(from)
		if s.last != nil && s.last[17] == byte(mad.AttrREJ) && row == "REQ" {
			same()
			return
		}
		stale()
	case "end, REJ stale":
		n := len(script.p.got)
		stale()
		switch from {
		case cm.StateREQRcvd, cm.StateMRAREQSent:
			where(cm.StateTimeWait)
			require.Equal(t, 1, n)
		case cm.StateEstablished:
			where(cm.StateDREQSent)
			require.Equal(t, 2, n)
		default:
			where(cm.StateTimeWait)
			require.Equal(t, 2, n)
		}
	case "REPRcvd":
		where(cm.StateREPRcvd)
		silent()
	case "Established":
		where(cm.StateEstablished)
		silent()
	case "note":
		where(from)
		silent()
	case "wait longer":
		silent()
		switch from {
		case cm.StateREQSent, cm.StateREPWait:
			where(cm.StateREPWait)
		case cm.StateREPSent, cm.StateMRAREPRcvd:
			where(cm.StateMRAREPRcvd)
		default: // there is no pending LAP
			where(from)
			dropped()
		}
	case "Closed":
		where(cm.StateClosed)
		silent()
	case "TimeWait":
		where(cm.StateTimeWait)
		silent()
	case "DREQRcvd":
		where(cm.StateDREQRcvd)
		silent()
		require.NoError(t, s.c.AnswerDisconnect(nil))
	case "DREP, TimeWait":
		where(cm.StateTimeWait)
		d := one[*mad.DREP](script)
		require.Equal(t, s.ids.theirs, d.RemoteCommID)
	case "DREP":
		where(cm.StateTimeWait)
		if s.last[17] == byte(mad.AttrDREP) {
			same()
			return
		}
		one[*mad.DREP](script)
	case "Established, see LAP":
		where(cm.StateEstablished)
		require.Equal(t, "LAPRcvd", cm.LapState(s.c))
	case "see LAP": // see TestLAP
		where(from)
	default:
		t.Fatalf("no check for %q", action)
	}
}

// TestUnknownConnection sends messages for no connection. Those whose sender waits are answered, and all are counted.
func TestUnknownConnection(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := &situation{s: s}
		v.ids.ours, v.ids.theirs = 0x1234, 0x5678
		s.request()
		for i, tt := range []struct {
			row  string
			want mad.CMMessage
		}{
			{"REP", &mad.REJ{LocalCommID: 0x1234, RemoteCommID: 0x5678, Message: mad.WhichREP,
				Reason: mad.RejInvalidCommID}},
			{"RTU", nil}, {"REJ", nil}, {"MRA of REQ", nil}, {"MRA of REP", nil}, {"MRA of LAP", nil}, {"DREP",
				nil}, {"APR", nil},
			{"DREQ", &mad.DREP{LocalCommID: 0x1234, RemoteCommID: 0x5678}},
			{"LAP", &mad.APR{LocalCommID: 0x1234, RemoteCommID: 0x5678, Status: mad.APRInvalidCommID}},
		} {
			s.send(v.message(tt.row))
			assert.Equal(t, uint64(i+1), s.x.m.Counters().Dropped[cm.DropUnknown], tt.row)
			if tt.want == nil {
				assert.Empty(t, s.take(), tt.row)
				continue
			}
			assert.Equal(t, s.p.tid, header(s.p.got[0].MAD).TID)
			assert.Equal(t, []mad.CMMessage{tt.want}, s.take(), tt.row)
		}
	})
}

func header(b []byte) (h mad.Header) {
	h.Parse(b)
	return h
}

// Messages with our communication ID and another peer's ID belong to no connection, and neither does a DREQ for another
// QP.
func TestOtherPeers(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterPassive(s)
		v.ids.theirs++
		for i, row := range []string{"REP", "RTU", "REJ", "MRA of REP", "DREP", "APR", "DREQ", "LAP"} {
			s.send(v.message(row))
			assert.Equal(t, cm.StateEstablished, v.c.State(), row)
			assert.Equal(t, uint64(i+1), s.x.m.Counters().Dropped[cm.DropUnknown], row)
		}
		v.ids.theirs--
		s.take()
		d := v.dreq()
		d.RemoteQPN++
		s.send(d)
		assert.Equal(t, cm.StateEstablished, v.c.State())
		assert.Equal(t, uint64(1), s.x.m.Counters().Dropped[cm.DropMismatch])
		assert.Empty(t, s.take())
		v.end()
	})
}

// A REJ without its sender's ID ends a connection only if it comes from the peer's port, because IDs can be observed.
func TestREJWithoutID(t *testing.T) {
	for name, enter := range map[string]func(*scripted) *situation{"active": enterActive, "passive": enterPassive} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(t *testing.T, s *scripted) {
				v := enter(s)
				rej := &mad.REJ{RemoteCommID: v.ids.ours, Message: mad.WhichREP, Reason: mad.RejInvalidCommID}
				s.sendFromOtherPort(rej)
				assert.Equal(t, cm.StateEstablished, v.c.State())
				assert.Equal(t, uint64(1), s.x.m.Counters().Dropped[cm.DropUnknown])
				s.send(rej)
				assert.Equal(t, cm.StateTimeWait, v.c.State())
				v.end()
			})
		})
	}
}

// TestCalls checks that each state allows the calls of the table, and that the error of the others names the state.
func TestCalls(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		sit := situations[name]
		t.Run(name, func(t *testing.T) {
			inScriptOn(t, ci.LinkEthernet, cm.Config{}, func(t *testing.T, s *scripted) {
				for k := range int(cm.Calls) {
					s.p.id++
					v := sit.enter(s)
					call, ok := cm.Allowed(sit.state, k)
					var err error
					switch call {
					case "Accept":
						v.background(func(ctx context.Context) { // blocks if the call is allowed
							if e := v.c.Accept(ctx, ourReply()); !errors.Is(e, context.Canceled) {
								err = e
							}
						})
						if ok {
							require.Equal(t, cm.StateREPSent, v.c.State())
						}
					case "Confirm":
						err = v.c.Confirm(nil)
					case "Established":
						err = v.c.Established()
					case "Delay":
						if err = v.c.Delay(20, nil); sit.state == cm.StateEstablished {
							assert.ErrorIs(t, err, ci.InvalidState, "there is no message to answer")
							err = nil
						}
					case "Reject":
						err = v.c.Reject(mad.RejConsumer, nil, nil)
					case "Handoff":
						if err = v.c.Handoff(0x999); ok {
							assert.ErrorIs(t, err, ci.NotFound)
							err = nil
						}
					case "LoadAlternate":
						if name == "Established, passive" {
							_, err = v.c.LoadAlternate(t.Context(), cm.AlternateConfig{Path: s.x.path(2, s.p.x, 2)})
							assert.ErrorContains(t, err, "only the active end can propose a path")
							err = nil
							break
						}
						v.background(func(ctx context.Context) {
							if _, e := v.c.LoadAlternate(ctx,
								cm.AlternateConfig{Path: s.x.path(2, s.p.x, 2)}); !errors.Is(e, context.Canceled) {
								err = e
							}
						})
						if ok {
							require.Equal(t, "LAPSent", cm.LapState(v.c))
							v.ends[len(v.ends)-1]()
							require.NoError(t, err)
						}
					case "AnswerAlternate":
						if err = v.c.AnswerAlternate(mad.APRLoaded, nil, nil); ok {
							assert.ErrorContains(t, err, "there is no proposal to answer")
							err = nil
						}
					case "Disconnect":
						v.background(func(ctx context.Context) {
							if _, e := v.c.Disconnect(ctx, nil); !errors.Is(e, context.Canceled) {
								err = e
							}
						})
					case "AnswerDisconnect":
						err = v.c.AnswerDisconnect(nil)
					case "Migrated":
						if err = v.c.Migrated(); ok {
							assert.ErrorContains(t, err, "no alternate path")
							err = nil
						}
					default:
						t.Fatal(call)
					}
					if ok {
						assert.NoError(t, err, "%s: %s", name, call)
					} else {
						assert.ErrorIs(t, err, ci.InvalidState, "%s: %s", name, call)
						assert.ErrorContains(t, err, "in state "+sit.state.String())
					}
					v.end()
				}
			})
		})
	}
}
