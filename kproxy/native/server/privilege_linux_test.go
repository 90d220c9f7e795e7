package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/mad"
)

// TestPrivileges calls what only privileged clients may do, as one that is and as one that is not.
func TestPrivileges(t *testing.T) {
	var privileged atomic.Bool
	r := newRig(t, kproxy.Config{
		Privileged: func(kproxy.Peer) bool { return privileged.Load() },
		Control: func(_ kproxy.Peer, operation string, request []byte) ([]byte, error) {
			if operation == "fails" {
				return nil, ci.ResourceBusy
			}
			return []byte(strings.Repeat(operation, int(request[0])<<8)), nil
		},
	})
	c := r.client()
	o := c.create()
	var ud schema.CreateQPReply
	require.NoError(t, c.do(schema.CmdCreateQP, &schema.CreateQP{PD: o.pd, SendCQ: o.cq, RecvCQ: o.cq, Type: ci.UD,
		Caps: schema.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}}, &ud))
	control := func(operation string, size byte) (n int, err error) {
		var reply schema.ControlReply
		err = c.do(schema.CmdControl, &schema.Control{Operation: operation, Request: []byte{size}}, &reply)
		return len(reply.Text), err
	}
	for _, is := range []bool{false, true, false} {
		privileged.Store(is)
		check := func(err error, isOpen bool, what string, args ...any) {
			t.Helper()
			assert.Equal(t, !is && !isOpen, ci.StatusOf(err) == ci.InvalidPermission, append([]any{what + ": %v"},
				append(args, err)...)...)
		}
		check(c.do(schema.CmdModifyCA, &schema.ModifyCA{CA: o.ca, Port: 1}, &schema.None{}), false, "CA.Modify")
		for method := range 256 {
			m := &schema.LocalMAD{CA: o.ca, Port: 1}
			m.MAD[0], m.MAD[3] = mad.BaseVersion, byte(method) // of class 0, which nobody executes
			isGet := method == int(mad.Get) || method == int(mad.GetTable)
			check(c.do(schema.CmdLocalMAD, m, &schema.LocalMADReply{}), isGet, "CA.LocalMAD, method %#x", method)
		}
		for _, key := range []ci.QKey{0, 1<<31 - 1, 1 << 31, ^ci.QKey(0)} {
			m := &schema.ModifyQP{QP: ud.Handle,
				Set: ci.QPFieldState | ci.QPFieldPKeyIndex | ci.QPFieldPort | ci.QPFieldQKey}
			m.Attr.State, m.Attr.Port, m.Attr.QKey = ci.QPInit, 1, key
			check(c.do(schema.CmdModifyQP, m, &schema.Changed{}), key>>31 == 0, "QP.Modify, Q_Key %#x", key)
			reset := &schema.ModifyQP{QP: ud.Handle, Set: ci.QPFieldState}
			reset.Attr.State = ci.QPReset
			require.NoError(t, c.do(schema.CmdModifyQP, reset, &schema.Changed{}))
		}
		_, err := control("x", 1)
		check(err, false, "an operation of the daemon")
	}
	privileged.Store(true)
	const most = schema.MaxControl >> 8
	for size, want := range map[byte]error{1: nil, most: nil, most + 1: ci.InsufficientResources} {
		n, err := control("x", size)
		require.ErrorIs(t, err, want)
		if want == nil {
			assert.Equal(t, int(size)<<8, n)
		}
	}
	_, err := control("fails", 0)
	require.ErrorIs(t, err, ci.ResourceBusy)
}

// TestWithoutServices uses a daemon that has no operations and may not copy the memory of its clients.
func TestWithoutServices(t *testing.T) {
	r := newRig(t, kproxy.Config{CanCopy: func(kproxy.Peer) bool { return false }})
	c := r.client()
	o := c.create()
	require.ErrorIs(t, c.do(schema.CmdControl, &schema.Control{Operation: "x"}, &schema.ControlReply{}), ci.Unsupported)
	memory := make([]byte, 100)
	require.ErrorIs(t, c.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: o.pd, Memory: schema.Memory{
		Addr: ci.Bytes(memory).Addr(), Length: uint64(len(memory))}}, &schema.RegionReply{}), ci.InvalidPermission)
	require.NoError(t, r.core.Close())
	assert.Empty(t, r.live())
	late := r.raw()
	require.ErrorIs(t, late.do(schema.CmdHello, &schema.Hello{Version: schema.Version, PointerBits: 64},
		&schema.HelloReply{}), ci.InvalidState)
}

// TestDrain waits for the end of connections: with none, with one that stays, and with one that ends.
func TestDrain(t *testing.T) {
	for _, x := range []struct {
		name              string
		isOpen, isPatient bool
		want              error
	}{{name: "no connection", isPatient: true}, {name: "a connection that stays", isOpen: true, want: context.Canceled},
		{name: "a connection that ends", isOpen: true, isPatient: true}} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t, kproxy.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if x.isOpen {
				c := r.client()
				if x.isPatient {
					require.NoError(t, c.c.Close())
				}
			}
			if !x.isPatient {
				cancel()
			}
			require.ErrorIs(t, r.server.Drain(ctx), x.want)
		})
	}
}
