package rvt

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
)

// An arrow is a row of the QP state table of IBTA volume 1, chapters 10 and 11, written out independently of the code.
type arrow struct{ from, to, required, optional string }

var arrows = map[ci.QPType][]arrow{
	ci.RC: {
		{"Reset", "Init", "PKeyIndex Port Access", ""},
		{"Init", "Init", "", "PKeyIndex Port Access"},
		{"Init", "RTR", "Primary MTU DestNum RQPSN RespRes MinRNRTimer", "Alternate Access PKeyIndex"},
		{"RTR", "RTS", "SQPSN AckTimeout RetryCount RNRRetry InitDepth",
			"CurrentState Alternate Access MinRNRTimer APM"},
		{"RTS", "RTS", "", "CurrentState Access Alternate APM MinRNRTimer"},
		{"RTS", "SQD", "", "SQDEvent"},
		{"SQD", "SQD", "", "Access PKeyIndex Port Primary AckTimeout RetryCount RNRRetry MinRNRTimer InitDepth " +
			"RespRes Alternate APM"},
		{"SQD", "RTS", "", "CurrentState Access PKeyIndex Port Primary AckTimeout RetryCount RNRRetry MinRNRTimer " +
			"InitDepth RespRes Alternate APM"},
	},
	ci.UC: {
		{"Reset", "Init", "PKeyIndex Port Access", ""},
		{"Init", "Init", "", "PKeyIndex Port Access"},
		{"Init", "RTR", "Primary MTU DestNum RQPSN", "Alternate Access PKeyIndex"},
		{"RTR", "RTS", "SQPSN", "CurrentState Alternate Access APM"},
		{"RTS", "RTS", "", "CurrentState Access Alternate APM"},
		{"RTS", "SQD", "", "SQDEvent"},
		{"SQD", "SQD", "", "Access PKeyIndex Port Primary Alternate APM"},
		{"SQD", "RTS", "", "CurrentState Access PKeyIndex Port Primary Alternate APM"},
		{"SQError", "RTS", "", "CurrentState Access"},
	},
	ci.UD: {
		{"Reset", "Init", "PKeyIndex Port QKey", ""},
		{"Init", "Init", "", "PKeyIndex Port QKey"},
		{"Init", "RTR", "", "PKeyIndex QKey"},
		{"RTR", "RTS", "SQPSN", "CurrentState QKey"},
		{"RTS", "RTS", "", "CurrentState QKey"},
		{"RTS", "SQD", "", "SQDEvent"},
		{"SQD", "SQD", "", "PKeyIndex QKey"},
		{"SQD", "RTS", "", "CurrentState PKeyIndex QKey"},
		{"SQError", "RTS", "", "CurrentState QKey"},
	},
	ci.QP1: {
		{"Reset", "Init", "PKeyIndex QKey", "Port"},
		{"Init", "Init", "", "PKeyIndex QKey"},
		{"Init", "RTR", "", "PKeyIndex QKey"},
		{"RTR", "RTS", "SQPSN", "CurrentState QKey"},
		{"RTS", "RTS", "", "CurrentState QKey"},
		{"RTS", "SQD", "", "SQDEvent"},
		{"SQD", "SQD", "", "PKeyIndex QKey"},
		{"SQD", "RTS", "", "CurrentState PKeyIndex QKey"},
		{"SQError", "RTS", "", "CurrentState QKey"},
	},
}

// A field is an attribute: how to draw a valid value and an invalid one, the status of the latter, and where the value
// is visible.
type field struct {
	name string
	bit  ci.QPField
	good func(t *rapid.T, a *ci.QPAttr)
	bad  func(t *rapid.T, a *ci.QPAttr)
	want ci.Status
	copy func(dst, src *ci.QPAttr)
}

func draw[T any](t *rapid.T, label string, g *rapid.Generator[T]) T { return g.Draw(t, label) }

func code(t *rapid.T, label string, lo, hi int) uint8 {
	return uint8(rapid.IntRange(lo, hi).Draw(t, label))
}

var modelFields = []field{
	{"CurrentState", ci.QPFieldCurrentState, nil, nil, ci.InvalidQPState, func(d, s *ci.QPAttr) {}},
	{"SQDEvent", ci.QPFieldSQDEvent, func(t *rapid.T, a *ci.QPAttr) { a.SQDEvent = rapid.Bool().Draw(t, "SQDEvent") },
		nil, 0, func(d, s *ci.QPAttr) {}},
	{"Access", ci.QPFieldAccess, func(t *rapid.T, a *ci.QPAttr) { a.Access = ci.Access(code(t, "Access", 0, 31)) },
		func(t *rapid.T, a *ci.QPAttr) { a.Access = 1 << 20 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.Access = s.Access }},
	{"PKeyIndex", ci.QPFieldPKeyIndex,
		func(t *rapid.T, a *ci.QPAttr) { a.Primary.PKeyIndex = uint16(code(t, "PKeyIndex", 0, 1)) },
		func(t *rapid.T, a *ci.QPAttr) { a.Primary.PKeyIndex = 2 }, ci.InvalidPKey,
		func(d, s *ci.QPAttr) { d.Primary.PKeyIndex = s.Primary.PKeyIndex }},
	{"Port", ci.QPFieldPort, func(t *rapid.T, a *ci.QPAttr) { a.Port = 1 },
		func(t *rapid.T, a *ci.QPAttr) { a.Port = code(t, "Port", 0, 1) * 2 },
		ci.InvalidPort, func(d, s *ci.QPAttr) { d.Port = s.Port }},
	{"QKey", ci.QPFieldQKey, func(t *rapid.T, a *ci.QPAttr) { a.QKey = ci.QKey(rapid.Uint32().Draw(t, "QKey")) }, nil,
		0, func(d, s *ci.QPAttr) { d.QKey = s.QKey }},
	{"Primary", ci.QPFieldPrimary, func(t *rapid.T, a *ci.QPAttr) {
		a.Primary.AV = ci.AVAttr{Port: code(t, "AV.Port", 0, 1), DLID: ci.LID(code(t, "DLID", 1, 9)),
			SL: ci.SL(code(t, "SL", 0, 15))}
	}, func(t *rapid.T, a *ci.QPAttr) { a.Primary.AV = ci.AVAttr{} }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.Primary.AV = s.Primary.AV }},
	{"MTU", ci.QPFieldMTU, func(t *rapid.T, a *ci.QPAttr) { a.MTU = ci.MTU(code(t, "MTU", 1, 4)) },
		func(t *rapid.T, a *ci.QPAttr) { a.MTU = draw(t, "MTU", rapid.SampledFrom([]ci.MTU{0, 5, 6, 255})) },
		ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.MTU = s.MTU }},
	{"AckTimeout", ci.QPFieldAckTimeout,
		func(t *rapid.T, a *ci.QPAttr) { a.Primary.AckTimeout = ci.TimeExp(code(t, "AckTimeout", 0, 31)) },
		func(t *rapid.T, a *ci.QPAttr) { a.Primary.AckTimeout = 32 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.Primary.AckTimeout = s.Primary.AckTimeout }},
	{"RetryCount", ci.QPFieldRetryCount, func(t *rapid.T, a *ci.QPAttr) { a.RetryCount = code(t, "RetryCount", 0, 7) },
		func(t *rapid.T, a *ci.QPAttr) { a.RetryCount = 8 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.RetryCount = s.RetryCount }},
	{"RNRRetry", ci.QPFieldRNRRetry, func(t *rapid.T, a *ci.QPAttr) { a.RNRRetry = code(t, "RNRRetry", 0, 7) },
		func(t *rapid.T, a *ci.QPAttr) { a.RNRRetry = 8 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.RNRRetry = s.RNRRetry }},
	{"MinRNRTimer", ci.QPFieldMinRNRTimer,
		func(t *rapid.T, a *ci.QPAttr) { a.MinRNRTimer = code(t, "MinRNRTimer", 0, 31) },
		func(t *rapid.T, a *ci.QPAttr) { a.MinRNRTimer = 32 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.MinRNRTimer = s.MinRNRTimer }},
	{"RQPSN", ci.QPFieldRQPSN,
		func(t *rapid.T, a *ci.QPAttr) { a.RQPSN = ci.PSN(rapid.Uint32Range(0, 0xffffff).Draw(t, "RQPSN")) },
		func(t *rapid.T, a *ci.QPAttr) { a.RQPSN = 1 << 24 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.RQPSN = s.RQPSN }},
	{"SQPSN", ci.QPFieldSQPSN,
		func(t *rapid.T, a *ci.QPAttr) { a.SQPSN = ci.PSN(rapid.Uint32Range(0, 0xffffff).Draw(t, "SQPSN")) },
		func(t *rapid.T, a *ci.QPAttr) { a.SQPSN = 1 << 24 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.SQPSN = s.SQPSN }},
	{"InitDepth", ci.QPFieldInitDepth, func(t *rapid.T, a *ci.QPAttr) { a.InitDepth = code(t, "InitDepth", 0, 128) },
		func(t *rapid.T, a *ci.QPAttr) { a.InitDepth = 129 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.InitDepth = s.InitDepth }},
	{"RespRes", ci.QPFieldRespRes, func(t *rapid.T, a *ci.QPAttr) { a.RespRes = code(t, "RespRes", 0, 128) },
		func(t *rapid.T, a *ci.QPAttr) { a.RespRes = 129 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.RespRes = s.RespRes }},
	{"DestNum", ci.QPFieldDestNum,
		func(t *rapid.T, a *ci.QPAttr) { a.DestNum = ci.QPN(rapid.Uint32Range(0, 0xffffff).Draw(t, "DestNum")) },
		func(t *rapid.T, a *ci.QPAttr) { a.DestNum = 1 << 24 }, ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.DestNum = s.DestNum }},
	{"Alternate", ci.QPFieldAlternate, func(t *rapid.T, a *ci.QPAttr) {
		a.Alternate = ci.Path{AV: ci.AVAttr{Port: 1, DLID: 3}, PKeyIndex: uint16(code(t, "alternate P_Key", 0, 1)),
			AckTimeout: ci.TimeExp(code(t, "alternate timeout", 0, 31))}
	}, func(t *rapid.T, a *ci.QPAttr) { a.Alternate = ci.Path{AV: ci.AVAttr{Port: 1, DLID: 3}, AckTimeout: 32} },
		ci.InvalidParameter,
		func(d, s *ci.QPAttr) { d.Alternate = s.Alternate }},
	{"APM", ci.QPFieldAPM, func(t *rapid.T, a *ci.QPAttr) { a.APM = ci.APMRearm },
		func(t *rapid.T, a *ci.QPAttr) {
			a.APM = draw(t, "APM", rapid.SampledFrom([]ci.APMState{0, ci.APMMigrated, ci.APMArmed, 9}))
		},
		ci.InvalidAPMState, func(d, s *ci.QPAttr) { d.APM = s.APM }},
	{"SendDepth", ci.QPFieldSendDepth, func(t *rapid.T, a *ci.QPAttr) {}, nil, 0, nil},
	{"RecvDepth", ci.QPFieldRecvDepth, func(t *rapid.T, a *ci.QPAttr) {}, nil, 0, nil},
}

// names parses "A B" into fields.
func names(list string) (f ci.QPField) {
	for n := range strings.FieldsSeq(list) {
		i := slices.IndexFunc(modelFields, func(x field) bool { return x.name == n })
		f |= modelFields[i].bit
	}
	return f
}

// TestModifyModel executes random Modifies and compares each with the table: its status, the attributes afterwards, and
// that a failed one has changed nothing.
func TestModifyModel(t *testing.T) {
	states := []ci.QPState{ci.QPReset, ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD, ci.QPSQDraining,
		ci.QPSQError, ci.QPError, 77}
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD, ci.QP1} {
		t.Run(typ.String(), func(t *testing.T) {
			s := newSide(t, &wireLink{mtu: ci.MTU2048}, 0xa, newClock(), ci.RC, nil)
			av := s.av(1)
			made := ci.QPCreate{Type: typ, SendCQ: s.cq, RecvCQ: s.cq, QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8,
				SendSGE: 1, RecvSGE: 1}}
			reached := map[ci.QPState]bool{}
			rapid.Check(t, func(t *rapid.T) {
				var qp ci.QP
				var err error
				events := make(chan ci.Event, 100)
				c := made
				c.OnEvent = func(e ci.Event) { events <- e }
				if typ == ci.QP1 {
					qp, err = s.pd.CreateSpecialQP(1, c)
				} else {
					qp, err = s.pd.CreateQP(c)
				}
				require.NoError(t, err)
				defer func() { require.NoError(t, qp.Destroy()) }()
				alternate := false
				for range rapid.IntRange(1, 25).Draw(t, "steps") {
					before, err := qp.Query()
					require.NoError(t, err)
					reached[before.State] = true
					if before.State == ci.QPRTS && rapid.IntRange(0, 9).Draw(t, "fault") == 0 {
						breakSend(t, s, av, qp, typ)
						if typ != ci.RC {
							require.Equal(t, ci.EventSQError, (<-events).Type)
						}
						continue
					}
					set, a, want := drawModify(t, typ, &before, states, alternate)
					err = qp.Modify(set, a)
					after, qerr := qp.Query()
					require.NoError(t, qerr)
					if want != ci.Success {
						require.ErrorIs(t, err, want, "%s: set %#x", before.State, set)
						require.Equal(t, before, after)
						continue
					}
					require.NoError(t, err, "%s to %s: set %#x", before.State, a.State, set)
					checkModified(t, set, &before, &a, &after)
					if set&ci.QPFieldAlternate != 0 {
						alternate = true
					}
					if after.State == ci.QPReset {
						alternate = false
					}
					if set&ci.QPFieldSQDEvent != 0 && a.SQDEvent {
						require.Equal(t, ci.EventSQDrained, (<-events).Type)
					}
				}
				s.poll()
			})
			if testing.Short() {
				return // too few runs to cover everything
			}
			want := []ci.QPState{ci.QPReset, ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD, ci.QPError}
			if typ != ci.RC {
				want = append(want, ci.QPSQError)
			}
			for _, st := range want {
				require.True(t, reached[st], "the model never came to %s", st)
			}
		})
	}
}

// breakSend posts a request that cannot be sent.
func breakSend(t *rapid.T, s *side, av ci.AV, qp ci.QP, typ ci.QPType) {
	n, err := qp.PostSend([]ci.SendWR{{SGL: []ci.SGE{{Addr: 1, Length: 1, LKey: 1}}, To: ci.Dest{AV: av}}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	a, err := qp.Query()
	require.NoError(t, err)
	if typ == ci.RC {
		require.Equal(t, ci.QPError, a.State)
	} else {
		require.Equal(t, ci.QPSQError, a.State)
	}
}

// drawModify returns a random Modify of a QP and its expected result. Most are nearly valid.
func drawModify(t *rapid.T, typ ci.QPType, q *ci.QPAttr, states []ci.QPState, alternate bool) (set ci.QPField,
	a ci.QPAttr, want ci.Status) {
	var onward []arrow
	for _, x := range arrows[typ] {
		if x.from == q.State.String() {
			onward = append(onward, x)
		}
	}
	a.State = q.State
	stated := rapid.IntRange(0, 5).Draw(t, "with state") > 0
	if stated {
		set |= ci.QPFieldState
		if len(onward) > 0 && rapid.IntRange(0, 3).Draw(t, "legal") > 0 {
			x := rapid.SampledFrom(onward).Draw(t, "arrow")
			a.State = states[slices.IndexFunc(states, func(s ci.QPState) bool { return s.String() == x.to })]
		} else {
			a.State = rapid.SampledFrom(states).Draw(t, "state")
		}
	}
	i := slices.IndexFunc(onward, func(x arrow) bool { return x.to == a.State.String() })
	var need, may ci.QPField
	legal := i >= 0
	if legal {
		need, may = names(onward[i].required), names(onward[i].optional)
	}
	if stated && (a.State == ci.QPReset || a.State == ci.QPError) {
		legal = true
	}
	set |= need
	for _, f := range modelFields {
		if may&f.bit != 0 && rapid.IntRange(0, 2).Draw(t, f.name+"?") == 0 {
			set |= f.bit
		}
	}
	for range rapid.IntRange(0, 5).Draw(t, "flips") / 5 {
		set ^= rapid.SampledFrom(modelFields).Draw(t, "flip").bit
	}
	spoilt := -1
	if rapid.IntRange(0, 4).Draw(t, "spoil") == 0 {
		spoilt = rapid.IntRange(0, len(modelFields)-1).Draw(t, "which")
	}
	var bad ci.Status
	for k, f := range modelFields {
		if set&f.bit == 0 {
			continue
		}
		switch {
		case f.name == "CurrentState":
			if a.CurrentState = q.State; k == spoilt {
				a.CurrentState, bad = (q.State+1)%8, f.want
			}
		case k == spoilt && f.bad != nil:
			f.bad(t, &a)
			bad = f.want
		default:
			f.good(t, &a)
		}
	}
	given := set &^ ci.QPFieldState
	switch {
	case !legal:
		want = ci.InvalidQPState
	case given&(ci.QPFieldSendDepth|ci.QPFieldRecvDepth) != 0: // CapModifyWRDepth is not claimed
		want = ci.Unsupported
	case need&^given != 0, given&^(need|may) != 0:
		want = ci.InvalidParameter
	case bad != 0:
		want = bad
	case given&ci.QPFieldAPM != 0 && !alternate && given&ci.QPFieldAlternate == 0:
		want = ci.InvalidAPMState
	}
	return set, a, want
}

// checkModified compares all attributes with those expected after a successful Modify.
func checkModified(t *rapid.T, set ci.QPField, before, a, after *ci.QPAttr) {
	want := *before
	if set&ci.QPFieldState != 0 && a.State == ci.QPReset {
		want = ci.QPAttr{QPCaps: before.QPCaps, Type: before.Type, Flags: before.Flags, Num: before.Num,
			Port: before.Port, APM: ci.APMMigrated,
			PD: before.PD, SendCQ: before.SendCQ, RecvCQ: before.RecvCQ}
	}
	for _, f := range modelFields {
		if set&f.bit != 0 {
			f.copy(&want, a)
		}
	}
	if set&ci.QPFieldState != 0 {
		want.State = a.State
	}
	want.CurrentState = want.State
	require.Equal(t, want, *after, "%#x", set)
}

// TestPostByState posts in every state.
func TestPostByState(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		s := newSide(t, &wireLink{mtu: ci.MTU4096}, 0xa, newClock(), typ, nil)
		a := s.attrTo(5, 9)
		av := s.av(9)
		check := func(st ci.QPState, send, recv ci.Status) {
			t.Helper()
			require.Equal(t, st, s.state())
			_, err := s.qp.PostSend([]ci.SendWR{{Flags: ci.SendSignaled, To: ci.Dest{AV: av}}})
			require.Equal(t, send, ci.StatusOf(err))
			_, err = s.qp.PostRecv([]ci.RecvWR{{}})
			require.Equal(t, recv, ci.StatusOf(err))
		}
		check(ci.QPReset, ci.InvalidQPState, ci.InvalidQPState)
		s.step(ci.QPInit, a)
		check(ci.QPInit, ci.InvalidQPState, ci.Success)
		s.step(ci.QPRTR, a)
		check(ci.QPRTR, ci.InvalidQPState, ci.Success)
		s.step(ci.QPRTS, a)
		check(ci.QPRTS, ci.Success, ci.Success)
		s.toState(ci.QPReset)
		s.poll()
		s.toRTS(a)
		s.toState(ci.QPSQD)
		check(ci.QPSQD, ci.Success, ci.Success)
		require.Empty(t, s.poll(), "waits")
		s.toState(ci.QPError)
		require.Len(t, s.poll(), 2)
		check(ci.QPError, ci.Success, ci.Success)
		require.Len(t, s.poll(), 2, "flushed")
		s.toState(ci.QPReset)
		require.Empty(t, s.poll())
		if typ == ci.RC {
			continue
		}
		s.toRTS(a)
		s.send(ci.SendWR{SGL: []ci.SGE{{Length: 1, LKey: 3}}, To: ci.Dest{AV: av}})
		require.Equal(t, ci.WCLocalProtErr, s.onlyWC().Status)
		check(ci.QPSQError, ci.Success, ci.Success)
		require.Equal(t, ci.WCFlushErr, s.onlyWC().Status)
		s.toState(ci.QPRTS)
		check(ci.QPRTS, ci.Success, ci.Success)
		require.Equal(t, ci.WCSuccess, s.onlyWC().Status)
	}
}

// TestSQErrorRecovers checks that an unreliable QP continues after SQError, and that its receive side never stopped.
func TestSQErrorRecovers(t *testing.T) {
	for _, typ := range []ci.QPType{ci.UC, ci.UD} {
		a, b := pair(t, &wireLink{}, typ)
		to := func(x, y *side) ci.Dest { return ci.Dest{AV: x.av(y.lid), QPN: y.qp.Num(), QKey: 0x1234} }
		for i := range 3 {
			a.recv(ci.RecvWR{SGL: a.sge(0, 100)})
			b.recv(ci.RecvWR{SGL: b.sge(0, 100)})
			a.send(ci.SendWR{SGL: []ci.SGE{{Length: 1, LKey: 3}}, To: to(a, b)})
			require.Equal(t, ci.WCLocalProtErr, a.onlyWC().Status)
			a.wantEvent(ci.EventSQError)
			require.Equal(t, ci.QPSQError, a.state())
			b.send(ci.SendWR{Inline: []byte("to a"), To: to(b, a)})
			require.Equal(t, ci.WCRecv, a.onlyWC().Op, "receives go on")
			a.toState(ci.QPRTS)
			a.buf[500] = byte(i)
			a.send(ci.SendWR{SGL: a.sge(500, 1), Flags: ci.SendSignaled, To: to(a, b)})
			require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
			require.Equal(t, ci.WCRecv, b.onlyWC().Op)
			off := 0
			if typ == ci.UD {
				off = grhSize
			}
			require.Equal(t, byte(i), b.buf[off])
		}
	}
}

// TestRetriesChangeInSQD checks that counts changed while the queue was drained apply from the first request on.
func TestRetriesChangeInSQD(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, nil)
	a.send(ci.SendWR{})
	r.say(ack(0))
	r.take()
	a.toState(ci.QPSQD)
	require.NoError(t, a.qp.Modify(ci.QPFieldRetryCount|ci.QPFieldRNRRetry, ci.QPAttr{RetryCount: 0, RNRRetry: 0}))
	a.toState(ci.QPRTS)
	a.send(ci.SendWR{})
	r.one()
	require.Empty(t, r.after(c, 10*timeout(14)))
	require.Equal(t, ci.WCTimeoutRetryErr, a.onlyWC().Status)
}

// TestSQDrain checks that started requests finish, that others wait, and that the event is raised once if it was
// requested.
func TestSQDrain(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		a, r, _ := rawPair(t, &wireLink{hints: Hints{Window: 2048}}, ci.RC, nil)
		for i := range 3 {
			a.send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, SGL: a.sge(0, 4096)})
		}
		require.Len(t, r.take(), 2, "the window is full")
		require.NoError(t, a.qp.Modify(ci.QPFieldState|ci.QPFieldSQDEvent,
			ci.QPAttr{State: ci.QPSQD, SQDEvent: wanted}))
		require.Equal(t, ci.QPSQDraining, a.state())
		require.ErrorIs(t, a.qp.Modify(ci.QPFieldState|ci.QPFieldInitDepth, ci.QPAttr{State: ci.QPRTS}),
			ci.InvalidQPState)
		require.ErrorIs(t, a.qp.Modify(ci.QPFieldPrimary, ci.QPAttr{Primary: ci.Path{AV: ci.AVAttr{DLID: 1}}}),
			ci.InvalidQPState)
		a.wantEvent(0)
		r.say(ack(1))
		require.Len(t, r.take(), 2, "the rest of what had started")
		require.Equal(t, ci.QPSQDraining, a.state())
		r.say(ack(3))
		require.Empty(t, r.take())
		require.Equal(t, ci.QPSQD, a.state())
		if wanted {
			a.wantEvent(ci.EventSQDrained)
		}
		a.wantEvent(0)
		require.EqualValues(t, 0, a.onlyWC().ID)
		a.send(ci.SendWR{ID: 3})
		require.Empty(t, r.take())
		require.NoError(t, a.qp.Modify(ci.QPFieldInitDepth, ci.QPAttr{InitDepth: 2}))
		a.toState(ci.QPRTS)
		require.Len(t, r.take(), 2)
		r.say(ack(5))
		require.Len(t, r.take(), 2)
		a.wantEvent(0)
	}
}
