package cm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// TestLife runs a connection from its request to the end of time-wait. The active end disconnects.
func TestLife(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a, b := p.establish()
		assert.Equal(t, cm.StateEstablished, a.State())
		assert.Equal(t, cm.StateEstablished, b.State())
		assert.Equal(t, a.ID(), b.RemoteID())
		assert.Equal(t, b.ID(), a.RemoteID())
		assert.NotEqual(t, a.ID(), b.ID())
		assert.Equal(t, private([]byte("request"), mad.REQPrivateLen), b.Request().Private())
		assert.Equal(t, private([]byte("accepts"), mad.REPPrivateLen), a.Reply().Private())
		assert.Equal(t, a.Reply(), b.Reply())
		assert.Equal(t, a.Request().REQ, b.Request().REQ)
		assert.Equal(t, private([]byte("confirms"), mad.RTUPrivateLen), next(t, b, cm.EventEstablished).Private)

		answered := make(chan error)
		go func() {
			e := next(t, b, cm.EventDisconnect)
			assert.Equal(t, private([]byte("bye"), mad.DREQPrivateLen), e.Private)
			assert.Equal(t, cm.StateDREQRcvd, b.State())
			answered <- b.AnswerDisconnect([]byte("so long"))
		}()
		got, err := a.Disconnect(t.Context(), []byte("bye"))
		require.NoError(t, err)
		require.NoError(t, <-answered)
		assert.Equal(t, private([]byte("so long"), mad.DREPPrivateLen), got)
		for _, c := range []cm.Conn{a, b} {
			assert.Equal(t, cm.StateTimeWait, c.State())
			require.NoError(t, next(t, c, cm.EventDisconnected).Err)
		}
		start := time.Now()
		for _, c := range []cm.Conn{b, a} { // b sent the last message, one millisecond before a received it
			next(t, c, cm.EventTimeWaitExit)
			assert.InDelta(t, c.TimeWait(), time.Since(start), float64(time.Millisecond))
			assert.Equal(t, cm.StateClosed, c.State())
			_, err = c.Next(t.Context())
			assert.ErrorIs(t, err, cm.ErrClosed)
		}
	})
}

// The QP attributes of both ends match, for each service.
func TestQPAttr(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC} {
		inPair(t, func(t *testing.T, p *pair) {
			l := p.b.listen()
			answer := reply()
			answer.QP.Type = typ
			a, b := p.connect(l, p.a.requestTo(p.b, func(c *cm.ConnectConfig) { c.QP.Type = typ }), answer)
			require.NoError(t, l.Close())
			want := map[ci.QPState][2]ci.QPField{ci.QPInit: {ci.QPFieldsInit &^ ci.QPFieldAccess,
				ci.QPFieldsInit &^ ci.QPFieldAccess},
				ci.QPRTR: {ci.QPFieldsRTR, ci.QPFieldsUCRTR}, ci.QPRTS: {ci.QPFieldsRTS, ci.QPFieldsUCRTS}}
			got := map[ci.QPState][2]ci.QPAttr{}
			for state, fields := range want {
				setA, attrA, err := a.QPAttr(state)
				require.NoError(t, err)
				setB, attrB, err := b.QPAttr(state)
				require.NoError(t, err)
				assert.Equal(t, fields[typ], setA, "%v", state)
				assert.Equal(t, fields[typ], setB, "%v", state)
				assert.Equal(t, state, attrA.State)
				got[state] = [2]ci.QPAttr{attrA, attrB}
			}
			rtr, rts := got[ci.QPRTR], got[ci.QPRTS]
			assert.Equal(t, []ci.QPN{0x200, 0x100}, []ci.QPN{rtr[0].DestNum, rtr[1].DestNum})
			assert.Equal(t, []ci.PSN{0x111111, 0x222222}, []ci.PSN{rtr[0].RQPSN, rtr[1].RQPSN},
				"each end chooses the starting PSN of the other")
			assert.Equal(t, []ci.PSN{0x222222, 0x111111}, []ci.PSN{rts[0].SQPSN, rts[1].SQPSN})
			assert.Equal(t, rtr[0].MTU, rtr[1].MTU)
			assert.Equal(t, ci.MTU4096, rtr[0].MTU)
			assert.Equal(t, uint32(0x12345), rtr[1].Primary.AV.GRH.FlowLabel, "both ends have the path's flow label")
			if typ == ci.RC {
				assert.Equal(t, []uint8{2, 3}, []uint8{rtr[0].RespRes, rtr[1].RespRes}, "limits of the other end")
				assert.Equal(t, []uint8{3, 2}, []uint8{rts[0].InitDepth, rts[1].InitDepth})
				assert.Equal(t, []uint8{5, 6}, []uint8{rts[0].RNRRetry, rts[1].RNRRetry},
					"each as the other end requested")
				assert.Equal(t, []uint8{7, 7}, []uint8{rts[0].RetryCount, rts[1].RetryCount})
				assert.NotZero(t, rts[0].Primary.AckTimeout)
				assert.Equal(t, rts[0].Primary.AckTimeout, rts[1].Primary.AckTimeout, "the CAs have the same delay")
			}
			_, _, err := a.QPAttr(ci.QPSQD)
			assert.ErrorIs(t, err, ci.InvalidParameter)
			_, _, err = a.AlternateAttr()
			assert.ErrorIs(t, err, ci.InvalidState)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

// String methods and error messages.
func TestNames(t *testing.T) {
	assert.Equal(t, "Established", cm.StateEstablished.String())
	assert.Equal(t, "State(77)", cm.State(77).String())
	assert.Equal(t, "disconnect", cm.EventDisconnect.String())
	assert.Equal(t, "time-wait exit", cm.EventTimeWaitExit.String())
	assert.Equal(t, "EventType(77)", cm.EventType(77).String())
	assert.Equal(t, "unanswered", cm.DropUnanswered.String())
	assert.Equal(t, "unknown", cm.Drop(77).String())
	assert.EqualError(t, &cm.RejectError{Reason: mad.RejNoQP}, "cm: rejected by the peer: no QP")
}
