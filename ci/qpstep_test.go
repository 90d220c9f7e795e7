package ci_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// Every step names the fields that its service requires, and sets no attribute that it does not name.
func TestSteps(t *testing.T) {
	t.Parallel()
	av := ci.AVAttr{Port: 1, DLID: 7}
	toInit := ci.ToInit{Port: 1, PKeyIndex: 2, Access: ci.RemoteRead, QKey: 3}
	toRTR := ci.ToRTR{AV: av, MTU: ci.MTU1024, DestNum: 4, RQPSN: 5, RespRes: 6, MinRNRTimer: 7}
	toRTS := ci.ToRTS{SQPSN: 8, AckTimeout: 9, RetryCount: 5, RNRRetry: 6, InitDepth: 10}
	type want struct {
		set  ci.QPField
		attr ci.QPAttr
	}
	index := ci.Path{PKeyIndex: 2}
	initDatagram := want{ci.QPFieldsSpecial, ci.QPAttr{State: ci.QPInit, Primary: index, QKey: 3}}
	datagram := [2]want{
		{ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}},
		{ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: 8}},
	}
	rts := ci.QPAttr{State: ci.QPRTS, SQPSN: 8, Primary: ci.Path{AckTimeout: 9}, RetryCount: 5, RNRRetry: 6,
		InitDepth: 10}
	connected := ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: av}, MTU: ci.MTU1024, DestNum: 4, RQPSN: 5}
	reliable := connected
	reliable.RespRes, reliable.MinRNRTimer = 6, 7
	for typ, steps := range map[ci.QPType][3]want{
		ci.RC: {
			{ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1, Primary: index, Access: ci.RemoteRead}},
			{ci.QPFieldsRTR, reliable},
			{ci.QPFieldsRTS, rts},
		},
		ci.UC: {
			{ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1, Primary: index, Access: ci.RemoteRead}},
			{ci.QPFieldsUCRTR, connected},
			{ci.QPFieldsUCRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: 8}},
		},
		ci.UD: {
			{ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, Primary: index, QKey: 3}},
			datagram[0], datagram[1],
		},
		ci.QP0: {initDatagram, datagram[0], datagram[1]},
		ci.QP1: {initDatagram, datagram[0], datagram[1]},
	} {
		var got [3]want
		got[0].set, got[0].attr = toInit.For(typ)
		got[1].set, got[1].attr = toRTR.For(typ)
		got[2].set, got[2].attr = toRTS.For(typ)
		assert.Equal(t, steps, got, typ)
	}
}

func TestStepsWithoutService(t *testing.T) {
	t.Parallel()
	for state, step := range map[ci.QPState]func() (ci.QPField, ci.QPAttr){
		ci.QPReset: ci.ToReset, ci.QPError: ci.ToError, ci.QPRTS: ci.BackToRTS,
	} {
		set, attr := step()
		assert.Equal(t, ci.QPFieldState, set)
		assert.Equal(t, ci.QPAttr{State: state}, attr)
	}
	set, attr := ci.ToSQD(true)
	assert.Equal(t, ci.QPFieldState|ci.QPFieldSQDEvent, set)
	assert.Equal(t, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}, attr)
}
