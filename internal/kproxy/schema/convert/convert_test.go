package convert_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/kproxy/native"
	"ciddk/mad"
)

// TestErrors sends errors through a message. Programs find in the result what they would find in the original.
func TestErrors(t *testing.T) {
	reject := &cm.RejectError{Reason: mad.RejConsumer, Message: mad.WhichREQ, Info: []byte{1}, Private: []byte{2, 3}}
	apr := &cm.AlternateError{APR: mad.APR{LocalCommID: 5, Status: mad.APRStatus(3)}}
	lookup := &cm.LookupError{Status: mad.SIDRNoQP, Info: []byte{4}, Private: []byte{5}}
	unreachable := &cm.UnreachableError{To: ci.GID{15: 1}, Cause: syscall.ECONNREFUSED}
	for _, x := range []struct {
		name string
		err  error
		is   []error
		same bool // the result is equal
	}{
		{"reject", fmt.Errorf("wrapped: %w", reject), nil, false},
		{"timeout", cm.ErrTimeout, []error{cm.ErrTimeout}, true},
		{"closed", &ci.Error{Verb: "v", Status: ci.InvalidState, Err: cm.ErrClosed},
			[]error{cm.ErrClosed, accesslayer.ErrClosed, ci.InvalidState}, false},
		{"closed agent", accesslayer.ErrClosed, []error{accesslayer.ErrClosed}, false},
		{"canceled", context.Canceled, []error{context.Canceled}, true},
		{"status", &ci.Error{Verb: "v", Status: ci.InvalidPKey, Detail: "d"}, []error{ci.InvalidPKey}, true},
		{"unreachable", unreachable, []error{syscall.ECONNREFUSED}, true},
		{"alternate", apr, nil, true},
		{"lookup", lookup, nil, true},
		{"RMPP", &ci.Error{Verb: "v", Status: ci.ErrorStatus, Err: &mads.RMPPError{Status: 3, Peer: true}},
			[]error{ci.ErrorStatus}, false},
	} {
		sent := convert.ToError(x.err)
		var received schema.Notice
		require.NoError(t, native.Parse(native.Append(nil, &schema.Notice{Error: sent}), &received), x.name)
		got := convert.Error(&received.Error)
		require.Error(t, got, x.name)
		for _, target := range x.is {
			assert.ErrorIs(t, got, target, x.name)
		}
		if x.same {
			assert.Equal(t, x.err, got, x.name)
		}
	}
	e := convert.ToError(fmt.Errorf("wrapped: %w", reject))
	assert.Equal(t, reject, convert.Error(&e))
	e = convert.ToError(&mads.RMPPError{Status: 3, Peer: true})
	rmpp, ok := errors.AsType[*mads.RMPPError](convert.Error(&e))
	require.True(t, ok)
	assert.Equal(t, mads.RMPPError{Status: 3, Peer: true}, *rmpp)
	none := convert.ToError(nil)
	assert.NoError(t, convert.Error(&none))
}

// TestPath checks that a path, an address and a QP come back as they were.
func TestPath(t *testing.T) {
	av := ci.AVAttr{Port: 1, SL: 2, PathBits: 3, DLID: 4, Global: true, GRH: ci.GRH{DGID: ci.GID{5}, SGIDIndex: 6,
		FlowLabel: 7, HopLimit: 8, TrafficClass: 9}}
	p := cm.Path{Port: mads.Port{CA: 1, Num: 2}, AV: av, PKey: 3, MTU: 4, LifeTime: 5, RemoteLID: 6}
	encoded := convert.ToPath(&p)
	assert.Equal(t, p, convert.Path(&encoded))
	a := mads.Address{AV: av, QPN: 1, QKey: 2, PKeyIndex: 3}
	address := convert.ToAddress(&a)
	assert.Equal(t, a, convert.Address(&address))
	q := cm.QP{Num: 1, Type: ci.UC, SRQ: true, StartPSN: 2}
	qp := convert.ToQP(&q)
	assert.Equal(t, q, convert.QP(&qp))
}

// FuzzError converts arbitrary errors of a daemon.
func FuzzError(f *testing.F) {
	for code := range uint32(12) {
		f.Add(native.Append(nil, &schema.Notice{Error: schema.ServiceError{Code: schema.ErrorCode(code), Status: 300,
			Number: 1 << 31, Info: []byte("info"), Detail: "detail"}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var n schema.Notice
		if native.Parse(b, &n) != nil {
			return
		}
		err := convert.Error(&n.Error)
		if (err == nil) != (n.Error.Code == schema.ErrorNone) {
			t.Fatalf("%v is %v", n.Error, err)
		}
		if err != nil {
			_ = err.Error()
			again := convert.ToError(err)
			require.NotEqual(t, schema.ErrorNone, again.Code)
		}
	})
}
